//! Events that no queue is bound for: each choice, for all events and for one type.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::QueueBindOptions;
use lapin::types::FieldTable;
use tokio_util::sync::CancellationToken;
use turno::outbox::Event;
use turno::sink::{PublishResult, RabbitMq, Sink, Unroutable};
use turno_testkit::conformance::TestStore;
use turno_testkit::eventually_async;

use crate::amqp::{Desk, shared};
use crate::{LONG, event};

fn sink(desk: &Desk) -> RabbitMq {
    RabbitMq::new(&shared().url())
        .unwrap()
        .exchange(&desk.exchange)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_type_has_the_choice_that_was_made_for_it() {
    let desk = Desk::open(&shared().url(), "wanted.#").await;
    let sink = sink(&desk)
        .unroutable(Unroutable::Drop)
        .unroutable_of_type("KeptEvent", Unroutable::Keep)
        .unroutable_of_type("DeadEvent", Unroutable::Dead);
    sink.ready().await.unwrap();
    let events = ["WantedEvent", "KeptEvent", "DeadEvent", "OtherEvent"].map(event);
    let results = sink.publish(&events).await;
    assert_eq!(results[0], PublishResult::Sent);
    let reason = |key: &str| {
        format!(
            "unroutable: no queue is bound to exchange {} for routing key {key}",
            desk.exchange
        )
    };
    match &results[1] {
        PublishResult::Unrouted(outage) => assert_eq!(outage.to_string(), reason("kept")),
        other => panic!("{other:?}"),
    }
    assert_eq!(results[2], PublishResult::Refused(reason("dead")));
    assert_eq!(results[3], PublishResult::Dropped(reason("other")));
    assert_eq!(desk.drain().await, [events[0].id.to_string()]);
}

/// An event that is kept costs no attempt and no label, others are published meanwhile, and it is published when a queue is
/// bound. The control: with the default choice it is dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_event_is_published_when_a_queue_is_bound() {
    for test_store in [TestStore::sqlite(), TestStore::postgres()] {
        let desk = Desk::open(&shared().url(), "wanted.#").await;
        let turno = test_store.turno().await;
        let outbox = turno.outbox();
        let kept = outbox.emit(Event::new("KeptEvent", &1)).await.unwrap();
        outbox.emit(Event::new("DeadEvent", &2)).await.unwrap();
        outbox.emit(Event::new("DroppedEvent", &3)).await.unwrap();
        let wanted = outbox.emit(Event::new("WantedEvent", &4)).await.unwrap();
        let sink = sink(&desk)
            .unroutable_of_type("KeptEvent", Unroutable::Keep)
            .unroutable_of_type("DroppedEvent", Unroutable::Drop);
        let short = Duration::from_millis(20);
        let relay = outbox
            .relay(Arc::new(sink))
            .max_attempts(2)
            .backoff(short, short)
            .outage_backoff(short, short);
        let stop = CancellationToken::new();
        let work = tokio::spawn(relay.run(stop.clone().cancelled_owned()));
        eventually_async(LONG, "the other events to be settled", async || {
            let stats = outbox.stats().await.unwrap();
            (stats.dispatched == 2 && stats.dead == 1).then_some(())
        })
        .await;
        let first = desk.take().await.unwrap();
        assert_eq!(crate::amqp::message_id(&first), wanted.to_string());
        let view = outbox.find(kept).await.unwrap().unwrap();
        assert_eq!((view.refused, view.doubtful), (0, 0));
        let bind = desk.channel.queue_bind(
            desk.queue.as_str().into(),
            desk.exchange.as_str().into(),
            "kept".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bind.await.unwrap();
        eventually_async(LONG, "the kept event", async || {
            (outbox.stats().await.unwrap().dispatched == 3).then_some(())
        })
        .await;
        let late = desk.take().await.unwrap();
        assert_eq!(crate::amqp::message_id(&late), kept.to_string());
        let headers = late.properties.headers().clone().unwrap();
        assert!(!headers.contains_key("x-possible-duplicate"));
        stop.cancel();
        let report = work.await.unwrap().unwrap();
        assert_eq!((report.sent, report.skipped, report.dead), (2, 1, 1));
    }
}
