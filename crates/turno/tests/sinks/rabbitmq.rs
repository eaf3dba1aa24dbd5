//! What arrives at RabbitMQ, and what is refused.

use std::collections::BTreeMap;

use lapin::types::AMQPValue;
use turno::sink::{Outgoing, PublishResult, RabbitMq, Sink};

use crate::amqp::{Desk, MAX_MESSAGE, message_id, shared, text};
use crate::{event, outage, unique};

/// Returns events of which half are unroutable, in random order.
fn mixed(count: usize) -> Vec<Outgoing> {
    let mut wanted = count / 2;
    let mut lost = count - wanted;
    std::iter::from_fn(|| {
        let left = wanted + lost;
        let kind = match left {
            0 => return None,
            _ if fastrand::usize(..left) < wanted => {
                wanted -= 1;
                "WantedThingEvent"
            }
            _ => {
                lost -= 1;
                "LostThingEvent"
            }
        };
        Some(event(kind))
    })
    .collect()
}

fn check_mixed(events: &[Outgoing], results: &[PublishResult], exchange: &str) {
    assert_eq!(results.len(), events.len());
    let refused =
        format!("unroutable: no queue is bound to exchange {exchange} for routing key lost.thing");
    for (event, result) in events.iter().zip(results) {
        match event.kind.as_str() {
            "WantedThingEvent" => assert_eq!(*result, PublishResult::Sent),
            _ => assert_eq!(*result, PublishResult::Refused(refused.clone())),
        }
    }
}

fn wanted_ids(events: &[Outgoing]) -> Vec<String> {
    let wanted = events
        .iter()
        .filter(|event| event.kind == "WantedThingEvent");
    wanted.map(|event| event.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_what_no_queue_takes_is_refused() {
    let desk = Desk::open(&shared().url(), "wanted.#").await;
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange);
    sink.ready().await.unwrap();
    let events = mixed(5_000);
    let results = sink.publish(&events).await;
    check_mixed(&events, &results, &desk.exchange);
    assert_eq!(
        results
            .iter()
            .filter(|result| **result != PublishResult::Sent)
            .count(),
        2_500
    );
    assert_eq!(desk.drain().await, wanted_ids(&events));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_the_same_time_do_not_mix() {
    let desk = Desk::open(&shared().url(), "wanted.#").await;
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange);
    let batches = [mixed(500), mixed(500), mixed(500), mixed(500)];
    let (a, b, c, d) = tokio::join!(
        sink.publish(&batches[0]),
        sink.publish(&batches[1]),
        sink.publish(&batches[2]),
        sink.publish(&batches[3]),
    );
    for (events, results) in batches.iter().zip([a, b, c, d]) {
        check_mixed(events, &results, &desk.exchange);
    }
    let mut expected: Vec<_> = batches
        .iter()
        .flat_map(|events| wanted_ids(events))
        .collect();
    let mut arrived = desk.drain().await;
    expected.sort();
    arrived.sort();
    assert_eq!(arrived, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_all_properties_and_headers() {
    let desk = Desk::open(&shared().url(), "ticket.status.changed").await;
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange);
    let full = Outgoing {
        key: Some("ticket-7".to_owned()),
        correlation_id: Some("a1b2".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: Some("congo=t61rcWkgMzE".to_owned()),
        headers: BTreeMap::from([
            ("tenant".to_owned(), "zürich".to_owned()),
            ("Type".to_owned(), "an impostor".to_owned()),
        ]),
        payload: r#"{"n":1.10}"#.to_owned(),
        possible_duplicate: true,
        ..event("TicketFlow.Domain.Events.TicketStatusChangedEvent")
    };
    let bare = event("TicketStatusChangedEvent");
    let results = sink.publish(&[full.clone(), bare.clone()]).await;
    assert_eq!(results, [PublishResult::Sent, PublishResult::Sent]);

    let message = desk.take().await.unwrap();
    let properties = &message.properties;
    let seconds = full.emitted_at.as_second();
    assert_eq!(message.data, full.payload.as_bytes());
    assert_eq!(message.routing_key.as_str(), "ticket.status.changed");
    assert_eq!(message_id(&message), full.id.to_string());
    let word = |word: &Option<lapin::types::ShortString>| word.as_ref().unwrap().to_string();
    assert_eq!(word(properties.content_type()), "application/json");
    assert_eq!(word(properties.kind()), full.kind);
    assert_eq!(word(properties.correlation_id()), "a1b2");
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(*properties.timestamp(), Some(seconds.try_into().unwrap()));
    let mut headers = properties.headers().clone().unwrap().inner().clone();
    // Added by the queue.
    headers.remove("x-delivery-count");
    let expected = BTreeMap::from([
        ("CorrelationId".into(), text("a1b2")),
        ("Key".into(), text("ticket-7")),
        ("Timestamp".into(), AMQPValue::LongLongInt(seconds)),
        ("Type".into(), text(&full.kind)),
        ("tenant".into(), text("zürich")),
        (
            "traceparent".into(),
            text(full.traceparent.as_ref().unwrap()),
        ),
        ("tracestate".into(), text(full.tracestate.as_ref().unwrap())),
        ("x-possible-duplicate".into(), AMQPValue::Boolean(true)),
    ]);
    assert_eq!(headers, expected);

    let message = desk.take().await.unwrap();
    let headers = message.properties.headers().clone().unwrap();
    let names: Vec<_> = headers.inner().keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["Timestamp", "Type", "x-delivery-count"]);
    assert_eq!(*message.properties.correlation_id(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_too_large_makes_its_batch_suspect_and_no_other() {
    let desk = Desk::open(&shared().url(), "#").await;
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange);
    sink.ready().await.unwrap();
    let mut events: Vec<_> = (0..20).map(|_| event("ThingEvent")).collect();
    events[7].payload = format!("\"{}\"", "x".repeat(MAX_MESSAGE));

    let results = sink.publish(&events).await;
    let PublishResult::Suspect(reason) = &results[7] else {
        panic!("{:?}", results[7]);
    };
    assert!(
        reason.contains("406") && reason.contains("larger"),
        "{reason}"
    );
    for result in &results {
        assert!(
            matches!(result, PublishResult::Sent | PublishResult::Suspect(_)),
            "{result:?}"
        );
    }
    // Without calling `ready`: the relay splits the batch immediately.
    for (place, event) in events.iter().enumerate() {
        let results = sink.publish(std::slice::from_ref(event)).await;
        match place {
            7 => assert!(
                matches!(results[..], [PublishResult::Suspect(_)]),
                "{results:?}"
            ),
            _ => assert_eq!(results, [PublishResult::Sent]),
        }
    }
    let arrived: std::collections::BTreeSet<_> = desk.drain().await.into_iter().collect();
    assert_eq!(arrived.len(), 19);
    assert!(!arrived.contains(&events[7].id.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_amqp_has_no_words_for_is_refused_alone() {
    let desk = Desk::open(&shared().url(), "#").await;
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange);
    let with_header = |name: String, value: String| Outgoing {
        headers: BTreeMap::from([(name, value)]),
        ..event("ThingEvent")
    };
    let events = [
        event("ThingEvent"),
        event(&"thing".repeat(60)),
        with_header("n".repeat(256), String::new()),
        with_header("large".to_owned(), "x".repeat(200_000)),
        Outgoing {
            correlation_id: Some("c".repeat(300)),
            ..event("ThingEvent")
        },
    ];
    let results = sink.publish(&events).await;
    let why = |result: &PublishResult| match result {
        PublishResult::Refused(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(results[0], PublishResult::Sent);
    assert!(why(&results[1]).contains("routing key"));
    assert!(why(&results[2]).contains("name of one of its headers"));
    assert!(why(&results[3]).contains("200"));
    assert_eq!(results[4], PublishResult::Sent);
    assert_eq!(desk.drain().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_has_gone_is_an_outage_and_is_made_again() {
    let desk = Desk::open(&shared().url(), "#").await;
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange);
    assert_eq!(
        sink.publish(&[event("ThingEvent")]).await,
        [PublishResult::Sent]
    );
    let gone = desk
        .channel
        .exchange_delete(desk.exchange.as_str().into(), Default::default());
    gone.await.unwrap();
    let results = sink
        .publish(&[event("ThingEvent"), event("ThingEvent")])
        .await;
    for result in results {
        let said = outage(&result).expect("an outage");
        assert!(said.contains("404"), "{said}");
    }
    sink.ready().await.unwrap();
    let results = sink.publish(&[event("ThingEvent")]).await;
    assert!(
        matches!(results[..], [PublishResult::Refused(_)]),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_another_kind_is_an_outage_that_says_so() {
    let desk = Desk::open(&shared().url(), "#").await;
    let name = unique("fanout");
    desk.channel
        .exchange_declare(
            name.as_str().into(),
            lapin::ExchangeKind::Fanout,
            Default::default(),
            Default::default(),
        )
        .await
        .unwrap();
    let sink = RabbitMq::new(&shared().url()).unwrap().exchange(&name);
    let said = sink.ready().await.unwrap_err().to_string();
    assert!(said.contains(&name) && said.contains("406"), "{said}");
    // An existing exchange of another type is accepted with `existing_exchange`.
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&name)
        .existing_exchange();
    sink.ready().await.unwrap();
    sink.close().await;
    // It can be used again after it was closed.
    sink.ready().await.unwrap();
}
