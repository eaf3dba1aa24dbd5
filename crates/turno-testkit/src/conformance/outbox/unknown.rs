//! Doubts: attempts with an unknown outcome are counted separately from rejections, and never make an event dead.

use std::time::Duration;

use turno::inbox::ItemState;
use turno::outbox::EventState;
use turno::store::{AfterRefusal, ClaimedEvent, Deferral, ItemId, MAX_DOUBTS, Order};

use crate::conformance::inbox::fixtures::LATER;
use crate::conformance::outbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Sets the number of attempts with an unknown outcome of an event.
async fn doubt(test_store: &TestStore, seq: ItemId, times: u32) {
    test_store
        .run(&format!(
            "update turno.inbox_item set attempts = {times}, abandoned = {times} where id = {seq}"
        ))
        .await;
}

fn outcome(event: &ClaimedEvent) -> (u32, u32) {
    (event.refused, event.doubtful)
}

/// Claims all events, and returns the claim and the counters of the first one.
async fn take_all(turno: &turno::Turno) -> (Taken, (u32, u32)) {
    let taken = take(turno, 10, Order::AsEmitted).await;
    assert_eq!(taken.events.len(), 2, "both are claimed");
    let first = taken.events.iter().min_by_key(|event| event.seq).unwrap();
    let first = outcome(first);
    (taken, first)
}

/// After 40,000 outages an event is claimed like any other, in both stores, with the others of its claim.
#[rule]
async fn an_event_with_many_doubts_is_claimed(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit(&turno, &[event(0), event(1)]).await;
    let (taken, _) = take_all(&turno).await;
    let seq = taken.events[0].seq;
    settle(&turno, &settlement(&taken)).await;
    doubt(test_store, seq, 40_000).await;
    let (taken, counted) = take_all(&turno).await;
    assert_eq!(counted, (0, 40_000));
    // Another outage, and a relay that is lost.
    let mut outage = settlement(&taken);
    outage.doubtful.push(seq);
    assert_eq!(settle(&turno, &outage).await.returned, 2);
    let (_, counted) = take_all(&turno).await;
    assert_eq!(counted, (0, 40_001));
    test_store.expire_claims().await;
    let (taken, counted) = take_all(&turno).await;
    assert_eq!(counted, (0, 40_002));
    send(&turno, &taken).await;
}

/// Doubts are counted up to a limit. Rejections are still counted then.
#[rule]
async fn doubts_saturate(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit(&turno, &[event(0), event(1)]).await;
    let (taken, _) = take_all(&turno).await;
    let first = taken.events[0].clone();
    settle(&turno, &settlement(&taken)).await;
    doubt(test_store, first.seq, MAX_DOUBTS).await;
    let (taken, counted) = take_all(&turno).await;
    assert_eq!(counted, (0, MAX_DOUBTS));
    let mut outage = settlement(&taken);
    outage.doubtful.push(first.seq);
    settle(&turno, &outage).await;
    take_all(&turno).await;
    test_store.expire_claims().await;
    let (taken, counted) = take_all(&turno).await;
    assert_eq!(counted, (0, MAX_DOUBTS));
    let mut refused = settlement(&taken);
    let again = AfterRefusal::Retry(Duration::ZERO);
    refused.refused.push(refusal(&first, again));
    assert_eq!(settle(&turno, &refused).await.refused, 1);
    let (_, counted) = take_all(&turno).await;
    assert_eq!(counted, (1, MAX_DOUBTS));
}

/// Neither the expiry of a lease nor a rejection with a retry makes an event dead, however many doubts there are. The control:
/// an item of a queue with as many attempts fails.
#[rule]
async fn doubts_never_make_an_event_dead(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit(&turno, &[event(0), event(1)]).await;
    let (taken, _) = take_all(&turno).await;
    let first = taken.events[0].clone();
    settle(&turno, &settlement(&taken)).await;
    for times in [4, 999, 1_000, 5_000] {
        doubt(test_store, first.seq, times).await;
        take_all(&turno).await;
        test_store.expire_claims().await;
        let (taken, counted) = take_all(&turno).await;
        assert_eq!(counted, (0, times + 1));
        let mut refused = settlement(&taken);
        let again = AfterRefusal::Retry(Duration::ZERO);
        refused.refused.push(refusal(&first, again));
        settle(&turno, &refused).await;
        assert_eq!(counts(&turno).await, [2, 0, 0, 0, 0, 0], "{times}");
    }

    let inbox = turno.inbox("control");
    crate::conformance::inbox::fixtures::push(&inbox, &["1"]).await;
    let held = crate::conformance::inbox::fixtures::take_one(&inbox).await;
    doubt(test_store, held.claim.item, 4).await;
    test_store.expire_claims().await;
    assert_eq!(
        crate::conformance::inbox::fixtures::take(&inbox, 1).await,
        []
    );
    let failed = crate::conformance::inbox::fixtures::listed(&inbox, ItemState::Failed).await;
    assert_eq!(failed.len(), 1);
}

/// A deferred event goes back until its due time; no attempt is counted, and its key waits with it.
#[rule]
async fn a_deferred_event_waits_for_its_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ids = emit_keyed(&turno, &["a", "b"], 2).await;
    let taken = take(&turno, 10, Order::ByKey).await;
    assert_eq!(taken.numbers(), [0, 1]);
    let mut deferred = settlement(&taken);
    deferred.doubtful.push(taken.events[0].seq);
    deferred.deferred.push(Deferral {
        seq: taken.events[0].seq,
        delay: LATER,
    });
    let settled = settle(&turno, &deferred).await;
    assert_eq!((settled.returned, settled.refused), (2, 0));
    assert_eq!(counts(&turno).await, [3, 1, 0, 0, 0, 0]);
    let waiting = turno.outbox().find(ids[0]).await.unwrap().unwrap();
    assert_eq!(
        (waiting.state, waiting.refused, waiting.doubtful),
        (EventState::Scheduled, 0, 1)
    );
    for number in [1, 3] {
        let taken = take(&turno, 10, Order::ByKey).await;
        assert_eq!(taken.numbers(), [number], "key a waits");
        send(&turno, &taken).await;
    }
    assert!(take(&turno, 10, Order::ByKey).await.events.is_empty());
}

/// An event that Turno did not write, without an id or an envelope, is set aside alone: the others are published.
#[rule]
async fn a_damaged_event_does_not_stop_the_others(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let events: Vec<_> = (0..6).map(event).collect();
    emit(&turno, &events).await;
    let taken = take(&turno, 10, Order::AsEmitted).await;
    settle(&turno, &settlement(&taken)).await;
    let (nameless, keyless, empty) = (
        taken.events[0].seq,
        taken.events[2].seq,
        taken.events[4].seq,
    );
    test_store
        .run(&format!(
            "update turno.inbox_item set key = 'no id' where id = {nameless}; \
         update turno.inbox_item set key = null where id = {keyless}; \
         update turno.inbox_item set payload = '{{}}' where id = {empty}"
        ))
        .await;
    let sink = Scripted::new([]);
    let running = Running::start(relay(&turno, &sink));
    settles_at(&turno, [0, 0, 0, 3, 3, 0]).await;
    running.stop().await;
    let mut arrived = sink.payloads();
    arrived.sort();
    assert_eq!(arrived, ["1", "3", "5"]);
    let dead = list(&turno, EventState::Dead).await;
    assert_eq!(dead.len(), 3, "they are listed");
    assert!(dead.iter().all(|event| event.errors.len() == 1), "{dead:?}");
}
