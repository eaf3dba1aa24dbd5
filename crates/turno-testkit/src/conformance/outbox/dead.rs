//! Dead events: list, inspect, requeue or discard them; and their effect on their keys.

use turno::outbox::{Archive, EventState, OnDead};
use turno::store::Order;

use crate::conformance::outbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// With skip, the event is set aside, and its key continues.
#[rule]
async fn a_skipped_event_lets_its_key_go_on(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a"], 3).await;
    kill(&turno, &take(&turno, 1, Order::ByKey).await, OnDead::Skip).await;
    assert_eq!(counts(&turno).await, [2, 0, 0, 0, 1, 0]);
    let dead = list(&turno, EventState::Dead).await;
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].id, dead[0].refused), (ids[0], 1));
    assert_eq!(dead[0].errors[0].error, "unroutable");
    assert_eq!(dead[0].by.as_deref(), Some("r"));
    assert_eq!(
        turno.outbox().find(ids[0]).await.unwrap().as_ref(),
        dead.first()
    );
    let taken = take(&turno, 1, Order::ByKey).await;
    assert_eq!(taken.numbers(), [1]);
    send(&turno, &taken).await;
    // After a requeue, it precedes the others that still wait.
    assert_eq!(turno.outbox().requeue(Some(&ids[..1])).await.unwrap(), 1);
    let taken = take(&turno, 1, Order::ByKey).await;
    assert_eq!((taken.numbers(), taken.events[0].refused), (vec![0], 0));
}

/// With block, its key waits until the event is requeued, and is then published first.
#[rule]
async fn a_blocked_event_holds_its_key(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a", "b"], 2).await;
    let first = take(&turno, 1, Order::ByKey).await;
    kill(&turno, &first, OnDead::Block).await;
    let other = take(&turno, 10, Order::ByKey).await;
    assert_eq!(other.numbers(), [1]);
    send(&turno, &other).await;
    let other = take(&turno, 10, Order::ByKey).await;
    assert_eq!(other.numbers(), [3]);
    send(&turno, &other).await;
    assert!(take(&turno, 10, Order::ByKey).await.events.is_empty());
    assert_eq!(counts(&turno).await, [1, 0, 0, 2, 0, 1]);
    let blocked = list(&turno, EventState::Blocked).await;
    assert_eq!((blocked.len(), blocked[0].id), (1, ids[0]));
    let found = turno.outbox().find(ids[0]).await.unwrap().unwrap();
    assert_eq!(found.state, EventState::Blocked);
    assert!(list(&turno, EventState::Scheduled).await.is_empty());
    let delayed = emit(
        &turno,
        &[event(9).delay(crate::conformance::inbox::fixtures::LATER)],
    )
    .await;
    let scheduled = turno
        .outbox()
        .list(EventState::Scheduled, None, 1)
        .await
        .unwrap();
    assert_eq!(
        scheduled[0].id, delayed[0],
        "blocked ones take no room in the list"
    );
    assert_eq!(turno.outbox().requeue(None).await.unwrap(), 1);
    for number in [0, 2] {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.numbers(), [number]);
        assert_eq!(taken.events[0].refused, 0);
        send(&turno, &taken).await;
    }
    assert_eq!(counts(&turno).await, [0, 1, 0, 4, 0, 0]);
}

/// When a blocked event is discarded, its key continues.
#[rule]
async fn a_discarded_event_is_gone(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a", "b"], 2).await;
    kill(&turno, &take(&turno, 1, Order::ByKey).await, OnDead::Block).await;
    kill(&turno, &take(&turno, 1, Order::ByKey).await, OnDead::Skip).await;
    assert_eq!(counts(&turno).await, [2, 0, 0, 0, 1, 1]);
    assert_eq!(turno.outbox().discard(&ids[..2], "ana").await.unwrap(), 2);
    assert_eq!(turno.outbox().discard(&ids[..2], "ana").await.unwrap(), 0);
    assert_eq!(counts(&turno).await, [2, 0, 0, 0, 0, 0]);
    for id in &ids[..2] {
        let found = turno.outbox().find(*id).await.unwrap().unwrap();
        assert_eq!(found.state, EventState::Discarded);
        assert_eq!(found.by.as_deref(), Some("ana"));
    }
    let taken = take(&turno, 10, Order::ByKey).await;
    assert_eq!(taken.numbers(), [2, 3]);
    // Only dead events can be discarded.
    assert_eq!(turno.outbox().discard(&ids, "ana").await.unwrap(), 0);
    send(&turno, &taken).await;
}

/// With park, later events of the key are set aside too, also those emitted afterwards. After a requeue, all of them are
/// published in their order.
#[rule]
async fn a_parked_key_is_set_aside_together(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a", "b"], 2).await;
    kill(&turno, &take(&turno, 1, Order::ByKey).await, OnDead::Park).await;
    assert_eq!(turno.outbox().stats().await.unwrap().parked_keys, 1);
    emit(&turno, &[event(9).ordering_key("a")]).await;
    let mut sent = Vec::new();
    let mut parked = Vec::new();
    loop {
        let taken = take(&turno, 1, Order::ByKey).await;
        match taken.events.first() {
            None => break,
            Some(event) if event.parked => {
                parked.extend(taken.numbers());
                kill(&turno, &taken, OnDead::Park).await;
            }
            Some(_) => {
                sent.extend(taken.numbers());
                send(&turno, &taken).await;
            }
        }
    }
    assert_eq!((sent, parked), (vec![1, 3], vec![2, 9]));
    assert_eq!(counts(&turno).await, [0, 0, 0, 2, 3, 0]);
    // A requeue of one of them requeues all.
    assert_eq!(turno.outbox().requeue(Some(&ids[2..3])).await.unwrap(), 3);
    assert_eq!(turno.outbox().stats().await.unwrap().parked_keys, 0);
    for number in [0, 2, 9] {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.numbers(), [number]);
        assert!(!taken.events[0].parked);
        send(&turno, &taken).await;
    }
}

/// A key that is parked while a claim waits for its turn is parked for that claim, too. On SQLite no claim waits.
#[rule(postgres)]
async fn a_claim_that_waited_sees_a_parked_key(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    emit_keyed(&turno, &["a"], 2).await;
    let first = take(&turno, 1, Order::ByKey).await;
    // This lock serializes the claims of a queue.
    let db = test_store.postgres_connection().await;
    db.batch_execute(
        "begin; select pg_advisory_xact_lock(1953853038, turno.inbox_turn('$outbox'))",
    )
    .await
    .unwrap();
    let waiting = tokio::spawn(async move { take(&other, 1, Order::ByKey).await });
    crate::eventually_async(crate::conformance::lock::fixtures::TIMEOUT, "the claim to wait", async || {
        let waiters = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
             and classid = 1953853038 and database = (select oid from pg_database where datname = current_database())";
        (test_store.number(waiters).await == 1).then_some(())
    })
    .await;
    kill(&turno, &first, OnDead::Park).await;
    db.batch_execute("commit").await.unwrap();
    let taken = waiting.await.unwrap();
    assert_eq!((taken.numbers(), taken.events[0].parked), (vec![1], true));
}

/// When all parked events of a key are discarded, the key continues.
#[rule]
async fn a_key_given_up_goes_on(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a"], 1).await;
    kill(&turno, &take(&turno, 1, Order::ByKey).await, OnDead::Park).await;
    assert_eq!(turno.outbox().discard(&ids, "ana").await.unwrap(), 1);
    emit(&turno, &[event(9).ordering_key("a")]).await;
    let taken = take(&turno, 1, Order::ByKey).await;
    assert_eq!((taken.numbers(), taken.events[0].parked), (vec![9], false));
}

/// Dispatched events are removed; their ids stay, and complete events if archiving is on.
#[rule]
async fn dispatched_events_leave_a_record(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a", "b", "c"], 1).await;
    let taken = take(&turno, 2, Order::ByKey).await;
    send(&turno, &taken).await;
    let rest = take(&turno, 2, Order::ByKey).await;
    let mut ask = all_sent(&rest);
    ask.archive = Archive::Events;
    assert_eq!(settle(&turno, &ask).await.sent, 1);
    let listed: Vec<_> = list(&turno, EventState::Dispatched)
        .await
        .into_iter()
        .map(|event| event.id)
        .collect();
    assert_eq!(listed, [ids[2], ids[1], ids[0]], "the newest first");
    let narrow = turno.outbox().find(ids[0]).await.unwrap().unwrap();
    assert_eq!(
        (narrow.state, narrow.payload),
        (EventState::Dispatched, None)
    );
    assert_eq!(narrow.by.as_deref(), Some("r"));
    let whole = turno.outbox().find(ids[2]).await.unwrap().unwrap();
    assert_eq!(whole.state, EventState::Dispatched);
    assert_eq!(whole.payload.as_deref(), Some("2"));
    assert_eq!(whole.key.as_deref(), Some("c"));
    // The record is deleted when it is old enough, and the archive later.
    test_store
        .age_outbox(crate::conformance::lock::fixtures::secs(8 * 24 * 60 * 60))
        .await;
    turno.sweep(&turno::lock::Sweep::default()).await.unwrap();
    assert!(list(&turno, EventState::Dispatched).await.is_empty());
    let sweep = turno::lock::Sweep {
        keep_archive: crate::conformance::lock::fixtures::secs(0),
        keep_seen: crate::conformance::lock::fixtures::secs(0),
        ..turno::lock::Sweep::default()
    };
    assert_eq!(turno.sweep(&sweep).await.unwrap().archived, 1);
}

/// A sweep that deletes old failed items keeps dead events: an operator has to decide about their keys.
#[rule]
async fn a_sweep_keeps_dead_events(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit_keyed(&turno, &["a", "b"], 1).await;
    kill(&turno, &take(&turno, 1, Order::ByKey).await, OnDead::Skip).await;
    kill(&turno, &take(&turno, 1, Order::ByKey).await, OnDead::Park).await;
    test_store
        .age_failures(crate::conformance::lock::fixtures::secs(365 * 24 * 60 * 60))
        .await;
    let sweep = turno::lock::Sweep {
        keep_failed: Some(crate::conformance::lock::fixtures::secs(0)),
        ..turno::lock::Sweep::default()
    };
    assert_eq!(turno.sweep(&sweep).await.unwrap().failed, 0);
    assert_eq!(list(&turno, EventState::Dead).await.len(), 2);
}

/// Lists are paged.
#[rule]
async fn events_are_listed_page_by_page(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a", "b", "c", "d", "e"], 1).await;
    let outbox = turno.outbox();
    let first = outbox.list(EventState::Pending, None, 2).await.unwrap();
    let after = first.last().map(|event| event.seq);
    let second = outbox.list(EventState::Pending, after, 2).await.unwrap();
    let found: Vec<_> = first.iter().chain(&second).map(|event| event.id).collect();
    assert_eq!(found, ids[..4]);
    let waiting = outbox.find(ids[4]).await.unwrap().unwrap();
    assert_eq!(waiting.state, EventState::Pending);
    let taken = take(&turno, 1, Order::ByKey).await;
    let held = outbox.find(ids[0]).await.unwrap().unwrap();
    assert_eq!(held.state, EventState::Processing);
    assert_eq!(list(&turno, EventState::Processing).await[0].id, ids[0]);
    for _ in 0..2 {
        send(&turno, &take(&turno, 1, Order::ByKey).await).await;
    }
    send(&turno, &taken).await;
    let first = outbox.list(EventState::Dispatched, None, 1).await.unwrap();
    let after = first.last().map(|event| event.seq);
    let second = outbox.list(EventState::Dispatched, after, 1).await.unwrap();
    assert_ne!(first[0].id, second[0].id);
    assert_eq!(outbox.find(uuid::Uuid::now_v7()).await.unwrap(), None);
}

impl TestStore {
    /// Makes records of dispatched events older by this duration.
    async fn age_outbox(&self, by: std::time::Duration) {
        self.age_records(by).await;
        if !self.is_sqlite() {
            self.run(&format!(
                "update turno.outbox_sent set at = at - {{us:{}}}",
                by.as_micros()
            ))
            .await;
        }
    }
}
