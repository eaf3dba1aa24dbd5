//! Emitting: an event is stored if and only if its transaction commits, once, and with all of its fields.

use turno::outbox::{Event, EventState};
use turno::store::{NewEvent, Order, OutboxEmit};
use uuid::Uuid;

use crate::conformance::caller_writes::Write;
use crate::conformance::outbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// An event is claimed as it was emitted, byte for byte.
#[rule]
async fn an_event_is_kept_whole(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let event = Event::from_json(
        "TicketCreatedEvent",
        r#"{"amount": 1.10, "big": 12345678901234567890, "ñ": "\u00f1"}"#,
    )
    .ordering_key("ticket/7")
    .correlation_id("a1b2")
    .traceparent(trace)
    .tracestate("vendor=1")
    .header("tenant", "north \"7\"");
    let ids = emit(&turno, &[event]).await;
    let view = list(&turno, EventState::Pending).await.remove(0);
    assert_eq!(view.id, ids[0]);
    assert_eq!(view.kind.as_deref(), Some("TicketCreatedEvent"));
    assert_eq!(view.key.as_deref(), Some("ticket/7"));
    assert_eq!(view.correlation_id.as_deref(), Some("a1b2"));
    assert_eq!(view.traceparent.as_deref(), Some(trace));
    assert_eq!(view.headers["tenant"], "north \"7\"");
    assert_eq!(
        view.payload.as_deref(),
        Some(r#"{"amount": 1.10, "big": 12345678901234567890, "ñ": "\u00f1"}"#)
    );
    assert_eq!((view.refused, view.doubtful), (0, 0));
    let sink = Scripted::new([]);
    let running = Running::start(relay(&turno, &sink));
    arrived(&sink, 1).await;
    running.stop().await;
    let sent = sink.got().remove(0);
    assert_eq!(sent.tracestate.as_deref(), Some("vendor=1"));
    assert_eq!((sent.attempt, sent.possible_duplicate), (1, false));
    assert_eq!(Some(sent.payload.into()), view.payload);
}

/// Ids are UUIDs of version 7 and grow with time.
#[rule]
async fn ids_grow_with_the_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut all = Vec::new();
    for caller in test_store.callers() {
        let tx = test_store.open_emit(*caller, &turno, &[event(0)]).await;
        all.extend(tx.emitted.clone());
        tx.commit().await;
    }
    assert!(all.iter().all(|id| id.get_version_num() == 7), "{all:?}");
    // The first 48 bits are the time, in milliseconds.
    assert!(all.is_sorted_by_key(|id| id.as_u128() >> 80), "{all:?}");
}

/// An event that is emitted in a transaction is visible to no other caller before the commit, and then to all.
#[rule]
async fn an_event_commits_with_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let events = [
            event(1).ordering_key("k"),
            event(2)
                .header("a", "b")
                .delay(crate::conformance::inbox::fixtures::LATER),
        ];
        let tx = test_store.open_emit(*caller, &turno, &events).await;
        let emitted = tx.emitted.clone();
        assert!(
            take(&turno, 10, Order::ByKey).await.events.is_empty(),
            "{caller:?}"
        );
        tx.commit().await;
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.events.len(), 1, "{caller:?}");
        assert_eq!(taken.events[0].id, emitted[0], "{caller:?}");
        assert_eq!(
            list(&turno, EventState::Scheduled).await.last().unwrap().id,
            emitted[1]
        );
        send(&turno, &taken).await;
    }
}

/// After a rollback, it does not exist.
#[rule]
async fn an_event_is_undone_with_its_transaction(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let id = Uuid::now_v7();
        let tx = test_store
            .open_emit(
                *caller,
                &turno,
                &[event(1).id(id), event(2).ordering_key("k")],
            )
            .await;
        tx.roll_back().await;
        assert_eq!(counts(&turno).await, [0; 6], "{caller:?}");
        assert!(
            turno.outbox().find(id).await.unwrap().is_none(),
            "{caller:?}"
        );
    }
}

/// An invalid event is rejected, and the caller can still commit or roll back the transaction.
#[rule]
async fn a_bad_event_leaves_the_transaction_alone(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (n, caller) in test_store.callers().iter().enumerate() {
        let write = Write::EmitAfterBad(
            turno.clone(),
            crate::conformance::outbox::validation::bad(),
            vec![event(1)],
        );
        let tx = test_store.open_inbox(*caller, write).await.unwrap();
        tx.commit().await;
        assert_eq!(
            counts(&turno).await,
            [n as u64 + 1, 0, 0, 0, 0, 0],
            "{caller:?}"
        );
    }
}

/// A given id is stored once, in one call or in several, while it is pending and after it was sent.
#[rule]
async fn a_given_id_is_emitted_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let id = Uuid::now_v7();
    let twice = emit(&turno, &[event(1).id(id), event(2).id(id), event(3)]).await;
    assert_eq!(twice[..2], [id, id]);
    assert_eq!(emit(&turno, &[event(4).id(id)]).await, [id]);
    for caller in test_store.callers() {
        test_store
            .open_emit(*caller, &turno, &[event(5).id(id)])
            .await
            .commit()
            .await;
    }
    let taken = take(&turno, 10, Order::AsEmitted).await;
    assert_eq!(taken.numbers(), [1, 3]);
    send(&turno, &taken).await;
    assert_eq!(emit(&turno, &[event(6).id(id)]).await, [id]);
    assert_eq!(counts(&turno).await, [0, 0, 0, 2, 0, 0]);
}

/// An emission that is sent again, because its response was lost, returns the same ids and stores nothing more.
#[rule]
async fn an_emission_is_answered_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let new = |number: u32| NewEvent {
        id: None,
        kind: "T".into(),
        payload: number.to_string().into(),
        key: None,
        correlation_id: None,
        traceparent: None,
        tracestate: None,
        headers: Default::default(),
        delay: None,
    };
    let ask = OutboxEmit {
        events: vec![new(1), new(2)],
        request: Uuid::now_v7(),
    };
    let first = turno.store().outbox_emit(&ask).await.unwrap();
    assert_eq!(turno.store().outbox_emit(&ask).await.unwrap(), first);
    assert_eq!(counts(&turno).await, [2, 0, 0, 0, 0, 0]);
}

/// A transaction that commits after later ones is not skipped, with or without order. With the single writer of
/// SQLite, no transaction commits late.
#[rule(postgres)]
async fn a_late_commit_is_delivered(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for order in [Order::AsEmitted, Order::ByKey] {
        for caller in test_store.callers() {
            let slow = test_store
                .open_emit(*caller, &turno, &[event(1).ordering_key("slow"), event(2)])
                .await;
            emit(&turno, &[event(3), event(4).ordering_key("quick")]).await;
            let first = take(&turno, 10, order).await;
            assert_eq!(first.numbers(), [3, 4], "{caller:?}");
            send(&turno, &first).await;
            slow.commit().await;
            let mut late = Vec::new();
            crate::eventually_async(
                crate::conformance::lock::fixtures::TIMEOUT,
                "the late ones",
                async || {
                    let taken = take(&turno, 10, order).await;
                    late.extend(taken.numbers());
                    send(&turno, &taken).await;
                    (late.len() == 2).then_some(())
                },
            )
            .await;
            late.sort_unstable();
            assert_eq!(late, [1, 2], "{caller:?}");
        }
    }
}

/// The outbox's queue is not an inbox: callers cannot push to it or claim from it, and lists do not show it.
#[rule]
async fn the_outbox_is_no_inbox(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit(&turno, &[event(1)]).await;
    let inbox = turno.inbox(turno::outbox::OUTBOX_QUEUE);
    assert_eq!(inbox.push(&1).await.unwrap_err().field(), Some("queue"));
    assert_eq!(
        inbox.claim().take().await.unwrap_err().field(),
        Some("queue")
    );
    assert!(turno.inbox_stats("").await.unwrap().is_empty());
}

/// For each consumer, an event is new until a transaction that marks it as processed has committed.
#[rule]
async fn an_event_is_seen_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for caller in test_store.callers() {
        let id = Uuid::now_v7();
        let see = async |consumer: &str| {
            let write = Write::Seen(turno.clone(), consumer.to_owned(), id);
            test_store.open_inbox(*caller, write).await.unwrap()
        };
        let first = see("billing").await;
        assert!(first.first, "{caller:?}");
        first.roll_back().await;
        let again = see("billing").await;
        assert!(again.first, "{caller:?}: what is rolled back was not seen");
        again.commit().await;
        let twice = see("billing").await;
        assert!(!twice.first, "{caller:?}");
        twice.commit().await;
        let other = see("mail").await;
        assert!(other.first, "{caller:?}: each consumer for itself");
        other.commit().await;
    }
}
