//! The consumer's loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use turno::consume::{Delivered, RabbitConsumer};
use turno::sink::{Outgoing, PublishResult, RabbitMq, Sink};
use turno_testkit::{TcpProxy, eventually_async, server};

use crate::amqp::{Desk, shared, text};
use crate::{LONG, event, unique};

async fn publish(url: &str, exchange: &str, events: &[Outgoing]) {
    let sink = RabbitMq::new(url).unwrap().exchange(exchange);
    let results = sink.publish(events).await;
    assert!(
        results.iter().all(|result| *result == PublishResult::Sent),
        "{results:?}"
    );
    sink.close().await;
}

async fn next<T>(received: &mut mpsc::UnboundedReceiver<T>) -> T {
    let received = tokio::time::timeout(LONG, received.recv());
    received.await.expect("in time").expect("the consumer runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_in_order_with_all_that_belongs_to_them() {
    let url = shared().url();
    let (exchange, queue) = (unique("events"), unique("queue"));
    let (tell, mut received) = mpsc::unbounded_channel();
    let shutdown = CancellationToken::new();
    let consumer = RabbitConsumer::new(&url, &queue)
        .unwrap()
        .bind(&exchange, "ticket.#");
    let running = tokio::spawn(consumer.run(
        shutdown.clone().cancelled_owned(),
        move |event: Delivered| {
            let tell = tell.clone();
            async move { tell.send(event).map_err(|_| "the test has ended") }
        },
    ));
    // An event can be routed once the consumer has declared its exchange, its queue and the binding.
    let sink = RabbitMq::new(&url).unwrap().exchange(&exchange);
    let first = Outgoing {
        key: Some("ticket-7".to_owned()),
        correlation_id: Some("a1b2".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        headers: [("tenant".to_owned(), "zürich".to_owned())].into(),
        possible_duplicate: true,
        ..event("TicketCreatedEvent")
    };
    eventually_async(LONG, "the queue to be bound", async || {
        sink.ready().await.ok()?;
        (sink.publish(std::slice::from_ref(&first)).await == [PublishResult::Sent]).then_some(())
    })
    .await;
    let got = next(&mut received).await;
    let expected = Delivered {
        id: first.id,
        kind: first.kind.clone(),
        payload: first.payload.clone(),
        key: first.key.clone(),
        correlation_id: first.correlation_id.clone(),
        headers: [
            ("tenant".to_owned(), "zürich".to_owned()),
            ("traceparent".to_owned(), first.traceparent.clone().unwrap()),
        ]
        .into(),
        emitted_at: Some(jiff::Timestamp::from_second(first.emitted_at.as_second()).unwrap()),
        possible_duplicate: true,
        redelivered: false,
        deliveries: 1,
    };
    assert_eq!(got, expected);

    let events: Vec<_> = (0..200).map(|_| event("TicketCreatedEvent")).collect();
    publish(&url, &exchange, &events).await;
    for event in &events {
        assert_eq!(next(&mut received).await.id, event.id);
    }
    shutdown.cancel();
    let report = running.await.unwrap().unwrap();
    assert_eq!(
        (report.handled, report.failed, report.rejected),
        (201, 0, 0)
    );
    let desk = Desk::connect(&url, exchange, queue).await;
    assert_eq!(desk.drain().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_before_the_handler_has_answered() {
    let url = shared().url();
    let desk = Desk::open(&url, "#").await;
    let events = [event("ThingEvent"), event("ThingEvent")];
    publish(&url, &desk.exchange, &events).await;

    // It gets the first event, and ends before it acknowledges.
    let (tell, mut received) = mpsc::unbounded_channel();
    let consumer = || {
        RabbitConsumer::new(&url, &desk.queue)
            .unwrap()
            .no_declare()
            .prefetch(1)
    };
    let seen = tell.clone();
    let first = tokio::spawn(consumer().run(
        std::future::pending::<()>(),
        move |event: Delivered| {
            seen.send(event).unwrap();
            std::future::pending::<Result<(), String>>()
        },
    ));
    assert_eq!(next(&mut received).await.id, events[0].id);
    first.abort();
    first.await.unwrap_err();

    // Another consumer gets that event again, before the second. It ends gracefully: a shutdown waits for the handler.
    let gate = Arc::new(Semaphore::new(0));
    let shutdown = CancellationToken::new();
    let passed = gate.clone();
    let second = tokio::spawn(consumer().run(
        shutdown.clone().cancelled_owned(),
        move |event: Delivered| {
            let (tell, gate) = (tell.clone(), passed.clone());
            async move {
                tell.send(event).unwrap();
                gate.acquire().await.unwrap().forget();
                Ok::<_, String>(())
            }
        },
    ));
    let again = next(&mut received).await;
    assert_eq!(again.id, events[0].id);
    assert!(again.redelivered);
    assert_eq!(again.deliveries, 2);
    shutdown.cancel();
    gate.add_permits(1);
    assert_eq!(second.await.unwrap().unwrap().handled, 1);
    // Only the handled event was removed.
    eventually_async(LONG, "the second event to be back", async || {
        let left = desk.take().await?;
        assert_eq!(crate::amqp::message_id(&left), events[1].id.to_string());
        Some(())
    })
    .await;
    assert!(desk.take().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_always_fails_is_rejected_in_the_end() {
    let url = shared().url();
    let dead = Desk::open(&url, "#").await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-dead-letter-exchange".into(), text(&dead.exchange));
    let desk = Desk::open_with(&url, "#", arguments).await;
    let poison = event("PoisonEvent");
    let events = [event("GoodEvent"), poison.clone(), event("GoodEvent")];
    publish(&url, &desk.exchange, &events).await;
    // A message that is not an event is rejected immediately.
    desk.channel
        .basic_publish(
            desk.exchange.as_str().into(),
            "good".into(),
            Default::default(),
            b"?",
            Default::default(),
        )
        .await
        .unwrap();

    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let shutdown = CancellationToken::new();
    let consumer = RabbitConsumer::new(&url, &desk.queue)
        .unwrap()
        .no_declare()
        .concurrency(2)
        .max_deliveries(3);
    let running = tokio::spawn(consumer.run(
        shutdown.clone().cancelled_owned(),
        move |event: Delivered| {
            let tries = counted.clone();
            async move {
                if event.kind != "PoisonEvent" {
                    return Ok(());
                }
                match tries.fetch_add(1, Ordering::SeqCst) {
                    0 => panic!("a panic is a failure too"),
                    _ => Err("it never works"),
                }
            }
        },
    ));
    let mut rejected = Vec::new();
    eventually_async(LONG, "the poison to be rejected", async || {
        rejected.extend(dead.take().await);
        (rejected.len() == 2).then_some(())
    })
    .await;
    assert!(rejected.iter().any(|message| message.data == b"?"));
    let id = poison.id.to_string();
    let found = rejected
        .iter()
        .find(|message| message.data != b"?")
        .unwrap();
    assert_eq!(crate::amqp::message_id(found), id);
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    shutdown.cancel();
    let report = running.await.unwrap().unwrap();
    assert_eq!((report.handled, report.failed, report.rejected), (2, 3, 2));
    assert!(matches!(
        found
            .properties
            .headers()
            .as_ref()
            .unwrap()
            .inner()
            .get("x-death"),
        Some(AMQPValue::FieldArray(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_made_again_and_what_was_not_acknowledged_comes_again() {
    let broker: &server::RabbitMq = shared();
    let desk = Desk::open(&broker.url(), "#").await;
    let proxy = TcpProxy::start(([127, 0, 0, 1], broker.port()).into())
        .await
        .unwrap();
    let (tell, mut received) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let passed = gate.clone();
    let shutdown = CancellationToken::new();
    let consumer = RabbitConsumer::new(&proxy.url_for(&broker.url()), &desk.queue)
        .unwrap()
        .no_declare();
    let running = tokio::spawn(consumer.run(
        shutdown.clone().cancelled_owned(),
        move |event: Delivered| {
            let (tell, gate) = (tell.clone(), passed.clone());
            async move {
                tell.send(event).unwrap();
                gate.acquire().await.unwrap().forget();
                Ok::<_, String>(())
            }
        },
    ));
    let event = event("ThingEvent");
    publish(&broker.url(), &desk.exchange, std::slice::from_ref(&event)).await;
    assert_eq!(next(&mut received).await.id, event.id);
    proxy.cut().await;
    gate.add_permits(1);
    proxy.restore().await.unwrap();
    // Its acknowledgement was lost with the connection.
    let again = next(&mut received).await;
    assert_eq!((again.id, again.redelivered), (event.id, true));
    gate.add_permits(1);
    eventually_async(LONG, "the acknowledgement", async || {
        let left = broker.ctl(&["list_queues", "name", "messages"]).unwrap();
        let line = left.lines().find(|line| line.contains(&desk.queue))?;
        line.ends_with("\t0").then_some(())
    })
    .await;
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().handled, 2);
}
