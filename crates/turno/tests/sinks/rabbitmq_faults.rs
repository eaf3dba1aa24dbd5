//! A broker that is killed, frozen, or blocks publishers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lapin::types::FieldTable;
use tokio::sync::mpsc;
use turno::sink::{Outgoing, PublishResult, RabbitMq, Sink};
use turno_testkit::{TcpProxy, eventually_async, server};

use crate::amqp::{Desk, shared, text};
use crate::{LONG, event, outage};

fn batch() -> Vec<Outgoing> {
    let kind = |place| match place % 2 {
        0 => "WantedThingEvent",
        _ => "LostThingEvent",
    };
    (0..500).map(|place| event(kind(place))).collect()
}

async fn eventually_ready(sink: &RabbitMq) {
    eventually_async(LONG, "the sink to be ready", async || {
        sink.ready().await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_in_the_middle_is_an_outage_and_nothing_is_lost() {
    let broker = Arc::new(server::RabbitMq::start().unwrap());
    // A quorum queue of a single broker that was killed may never elect a leader again.
    let mut classic = FieldTable::default();
    classic.insert("x-queue-type".into(), text("classic"));
    let desk = Desk::open_with(&broker.url(), "wanted.#", classic).await;
    let sink = RabbitMq::new(&broker.url())
        .unwrap()
        .exchange(&desk.exchange);
    sink.ready().await.unwrap();

    let (stopper, mut stop) = mpsc::unbounded_channel();
    let killed = broker.clone();
    let killer = tokio::task::spawn_blocking(move || {
        // During the third batch or a later one.
        for _ in 0..3 {
            stop.blocking_recv();
        }
        killed.kill_9().unwrap();
    });
    let mut sent = BTreeSet::new();
    let mut again = Vec::new();
    while again.is_empty() {
        let events = batch();
        stopper.send(()).ok();
        let results = sink.publish(&events).await;
        for (event, result) in events.into_iter().zip(results) {
            match result {
                PublishResult::Sent => {
                    assert_eq!(event.kind, "WantedThingEvent", "no queue took it");
                    sent.insert(event.id.to_string());
                }
                PublishResult::Refused(why) => {
                    assert_eq!(event.kind, "LostThingEvent");
                    assert!(why.starts_with("unroutable"), "{why}");
                }
                PublishResult::Unsent(_) | PublishResult::Doubtful(_) | PublishResult::Busy(_) => {
                    again.push(event)
                }
                PublishResult::Suspect(why) => panic!("no event is to blame: {why}"),
                other @ (PublishResult::Dropped(_) | PublishResult::Unrouted(_)) => {
                    panic!("the sink has no such choice: {other:?}")
                }
            }
        }
    }
    killer.await.unwrap();
    assert!(!sent.is_empty());
    let results = sink.publish(&again[..1]).await;
    assert!(
        matches!(results[..], [PublishResult::Unsent(_)]),
        "{results:?}"
    );
    sink.ready().await.unwrap_err();

    on_server(&broker, |broker| broker.restart()).await;
    eventually_ready(&sink).await;
    eventually_async(LONG, "everything to be published", async || {
        let results = sink.publish(&again).await;
        let mut results = results.into_iter();
        again.retain(|event| match results.next().expect("a result") {
            PublishResult::Sent => {
                assert_eq!(event.kind, "WantedThingEvent");
                sent.insert(event.id.to_string());
                false
            }
            PublishResult::Refused(why) => {
                assert_eq!(event.kind, "LostThingEvent", "{why}");
                false
            }
            PublishResult::Suspect(why) => panic!("no event is to blame: {why}"),
            other @ (PublishResult::Dropped(_) | PublishResult::Unrouted(_)) => {
                panic!("the sink has no such choice: {other:?}")
            }
            PublishResult::Unsent(_) | PublishResult::Doubtful(_) | PublishResult::Busy(_) => true,
        });
        again.is_empty().then_some(())
    })
    .await;
    let desk = Desk::connect(&broker.url(), desk.exchange, desk.queue).await;
    let arrived: BTreeSet<_> = desk.drain().await.into_iter().collect();
    assert_eq!(arrived, sent);

    // An orderly stop by an operator (320) is not caused by an event either.
    on_server(&broker, |broker| broker.stop()).await;
    let results = sink.publish(&batch()).await;
    assert!(
        results.iter().all(|result| outage(result).is_some()),
        "{results:?}"
    );
}

/// Runs a call of the testkit, which blocks.
async fn on_server(
    broker: &Arc<server::RabbitMq>,
    call: fn(&server::RabbitMq) -> anyhow::Result<()>,
) {
    let broker = broker.clone();
    let done = tokio::task::spawn_blocking(move || call(&broker));
    done.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_blocks_publishers_is_an_outage_until_it_does_not() {
    let broker = Arc::new(server::RabbitMq::start().unwrap());
    let desk = Desk::open(&broker.url(), "#").await;
    let connect = || {
        RabbitMq::new(&broker.url())
            .unwrap()
            .exchange(&desk.exchange)
            .confirm_timeout(LONG)
    };
    let old = connect();
    assert_eq!(
        old.publish(&[event("ThingEvent")]).await,
        [PublishResult::Sent]
    );

    on_server(&broker, server::RabbitMq::block_publishers).await;
    // A broker reports to a connection that it blocks only when it publishes, so a new connection tries a single event first.
    for (sink, scouts) in [(connect(), 1), (old, 100)] {
        sink.ready().await.unwrap();
        let events: Vec<_> = (0..100).map(|_| event("ThingEvent")).collect();
        let results = sink.publish(&events).await;
        for result in &results {
            let said = outage(result).expect("an outage");
            assert!(said.contains("blocks publishers"), "{said}");
        }
        let doubtful = results
            .iter()
            .filter(|result| matches!(result, PublishResult::Doubtful(_)));
        assert!(doubtful.count() <= scouts);
        if scouts == 1 {
            let said = sink.ready().await.unwrap_err().to_string();
            assert!(said.contains("blocks publishers (low on memory)"), "{said}");
            let results = sink.publish(&events).await;
            assert!(
                matches!(results[0], PublishResult::Unsent(_)),
                "{:?}",
                results[0]
            );

            on_server(&broker, server::RabbitMq::unblock_publishers).await;
            eventually_ready(&sink).await;
            let results = sink.publish(&events).await;
            assert!(
                results.iter().all(|result| *result == PublishResult::Sent),
                "{results:?}"
            );
            on_server(&broker, server::RabbitMq::block_publishers).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_falls_silent_is_given_up_after_a_while() {
    let desk = Desk::open(&shared().url(), "#").await;
    let proxy = TcpProxy::start(([127, 0, 0, 1], shared().port()).into())
        .await
        .unwrap();
    let sink = RabbitMq::new(&proxy.url_for(&shared().url()))
        .unwrap()
        .exchange(&desk.exchange)
        .confirm_timeout(Duration::from_millis(500));
    eventually_ready(&sink).await;
    assert_eq!(
        sink.publish(&[event("ThingEvent")]).await,
        [PublishResult::Sent]
    );

    proxy.black_hole();
    let results = sink.publish(&batch()).await;
    assert!(
        results
            .iter()
            .all(|result| matches!(result, PublishResult::Doubtful(_))),
        "{results:?}"
    );
    // The old connection was given up, and a new one gets no response.
    let results = sink.publish(&batch()).await;
    assert!(
        results
            .iter()
            .all(|result| matches!(result, PublishResult::Unsent(_))),
        "{results:?}"
    );
    let said = sink.ready().await.unwrap_err().to_string();
    assert!(said.contains("no answer"), "{said}");

    proxy.restore().await.unwrap();
    eventually_ready(&sink).await;
    assert_eq!(
        sink.publish(&[event("ThingEvent")]).await,
        [PublishResult::Sent]
    );

    proxy.cut().await;
    let results = sink.publish(&batch()).await;
    assert!(
        results.iter().all(|result| outage(result).is_some()),
        "{results:?}"
    );
    proxy.restore().await.unwrap();
    eventually_ready(&sink).await;
    assert_eq!(
        sink.publish(&[event("ThingEvent")]).await,
        [PublishResult::Sent]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_spoils_none_that_follow() {
    let desk = Desk::open(&shared().url(), "wanted.#").await;
    let sink = RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange);
    for _ in 0..5 {
        let events = batch();
        // Polled once or twice, it has passed events to the client library, and waits.
        let publishing = sink.publish(&events);
        tokio::select! {
            biased;
            _ = publishing => {}
            () = tokio::task::yield_now() => {}
        }
        let events = batch();
        let results = sink.publish(&events).await;
        for (event, result) in events.iter().zip(results) {
            match event.kind.as_str() {
                "WantedThingEvent" => assert_eq!(result, PublishResult::Sent),
                _ => assert!(matches!(result, PublishResult::Refused(_)), "{result:?}"),
            }
        }
    }
}
