//! Lost workers: their items are claimed by others, and the attempt is counted.

use std::time::Duration;

use turno::inbox::ItemState;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

/// A claim that is not extended in time expires, by the store's clock.
#[rule]
async fn a_claim_ends_with_its_lease(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let (inbox, theirs) = (turno.inbox("q"), other.inbox("q"));
    push(&inbox, &["1"]).await;
    let short = Duration::from_millis(100);
    let held = inbox.claim().lease(short).take().await.unwrap().remove(0);
    let waiting = theirs.claim().lease(LONG).wait(TIMEOUT).take();
    let taken = waiting.await.unwrap().remove(0);
    assert_eq!((taken.claim.item, taken.attempt), (held.claim.item, 2));
    assert!(turno::clock::machine() >= held.expires_at);
    let late = inbox.complete(&[held.claim]).await.unwrap();
    assert_eq!(late, all_stale(&[held.claim]));
}

/// Items of a lost worker are pending, and the call that detects it can claim them.
#[rule]
async fn an_abandoned_item_is_claimed_at_once(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3"]).await;
    let lost = take(&inbox, 2).await;
    test_store.expire_claims().await;
    assert_eq!(counts(&inbox).await, [3, 0, 0, 0, 0]);
    assert_eq!(listed(&inbox, ItemState::Processing).await, []);
    assert_eq!(listed(&inbox, ItemState::Pending).await.len(), 3);
    let again = take(&inbox, 10).await;
    let mut both = ids(&again[..2]);
    both.sort();
    assert_eq!(both, ids(&lost), "those before the one in line");
    assert_eq!([again[0].attempt, again[1].attempt], [2, 2]);
    assert_eq!(text(&again[2]), "3");
    assert_eq!(counts(&inbox).await, [0, 0, 3, 0, 0]);
}

/// The attempt is recorded as abandoned, with its worker.
#[rule]
async fn an_abandoned_attempt_is_recorded(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1"]).await;
    fail(&inbox, take_one(&inbox).await.claim, Duration::ZERO).await;
    let gone = inbox.claim().worker("gone").lease(LONG);
    assert_eq!(gone.take().await.unwrap().len(), 1);
    test_store.expire_claims().await;
    let claimed = take_one(&inbox).await;
    assert_eq!(claimed.attempt, 3);
    let shown = only(&inbox, ItemState::Processing).await;
    assert_eq!((shown.attempts, shown.abandoned), (2, 1));
    let kinds: Vec<&str> = shown.errors.iter().map(|e| e.kind.as_str()).collect();
    assert_eq!(kinds, ["failed", "abandoned"]);
    assert_eq!(shown.errors[1].attempt, 2);
    assert_eq!(shown.errors[1].worker.as_deref(), Some("gone"));
    assert_eq!(
        shown.errors[1].error,
        "the worker vanished: its claim was not extended in time"
    );
}

/// An item that kills its workers fails in the end.
#[rule]
async fn an_item_that_kills_its_workers_is_set_aside(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("poison").max_attempts(2), item("fine")]).await;
    for attempt in 1..=2 {
        let claimed = take_one(&inbox).await;
        assert_eq!(
            (text(&claimed), claimed.attempt),
            ("poison".into(), attempt)
        );
        test_store.expire_claims().await;
    }
    assert_eq!(texts(&take(&inbox, 10).await), ["fine"]);
    let failed = only(&inbox, ItemState::Failed).await;
    assert_eq!((failed.attempts, failed.abandoned), (2, 2));
    assert_eq!(failed.worker.as_deref(), Some("w"));
    assert_eq!(counts(&inbox).await, [0, 0, 1, 0, 1]);
}

/// A claim that is extended in time is not taken over, however often its first lease has passed.
#[rule]
async fn an_extended_claim_is_not_taken_over(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["1", "2"]).await;
    let short = Duration::from_millis(200);
    let ask = inbox.claim().lease(short).limit(2);
    let held = ask.take().await.unwrap();
    let first_end = held[0].expires_at;
    crate::eventually_async(TIMEOUT, "several leases", async || {
        // Extending one item extends both. The extension is long, so that a pause of the machine does not lose them.
        let extended = inbox.extend(&[held[0].claim], LONG).await.unwrap();
        assert_eq!(extended, all_done(1));
        assert_eq!(take(&other.inbox("q"), 2).await, []);
        (turno::clock::machine() > first_end + short).then_some(())
    })
    .await;
    complete(&inbox, &held).await;
}

/// Only held items are abandoned: items that were completed before their worker was lost stay completed.
#[rule]
async fn what_was_done_is_not_abandoned(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3"]).await;
    let held = take(&inbox, 3).await;
    complete(&inbox, &held[1..2]).await;
    test_store.expire_claims().await;
    let mut again = ids(&take(&inbox, 10).await);
    again.sort();
    assert_eq!(again, [held[0].claim.item, held[2].claim.item]);
    assert_eq!(counts(&inbox).await, [0, 0, 2, 1, 0]);
}

/// A large number of items is taken over, in one call or in several, each item once.
#[rule]
async fn very_many_are_taken_over(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, (0..2500).map(|_| item("x"))).await;
    let mut lost = Vec::new();
    for _ in 0..5 {
        lost.extend(ids(&take(&inbox, 500).await));
    }
    test_store.expire_claims().await;
    let mut again = Vec::new();
    while again.len() < lost.len() {
        let some = take(&inbox, 10_000).await;
        assert_ne!(some, [], "{} are missing", lost.len() - again.len());
        assert!(some.iter().all(|item| item.attempt == 2));
        again.extend(ids(&some));
    }
    again.sort();
    lost.sort();
    assert_eq!(again, lost);
}

/// An item whose attempt cannot be ended does not prevent claims of the others.
#[rule]
async fn one_bad_item_does_not_fail_a_claim(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("bad").max_attempts(1), item("fine")]).await;
    let held = take(&inbox, 2).await;
    let bad = held[0].claim.item;
    spoil(test_store, bad).await;
    test_store.expire_claims().await;
    push(&inbox, &["new"]).await;
    let mut claimed = texts(&take(&inbox, 10).await);
    claimed.retain(|text| text != "bad");
    claimed.sort();
    assert_eq!(claimed, ["fine", "new"]);
}

/// Makes it impossible to record the end of an attempt at an item.
async fn spoil(test_store: &TestStore, item: turno::store::ItemId) {
    if test_store.is_sqlite() {
        // A number that the counters never have; the key of its next error is taken.
        test_store
            .run(&format!(
                "update turno.inbox_item set attempts = 5000000000 where id = {item}; \
             insert into turno.inbox_error (item, number, attempt, at, kind, error) \
             values ({item}, 1, 1, {{now}}, 'failed', 'in the way')"
            ))
            .await;
        return;
    }
    // Its number is already among the failed ones, as after a restore of some of the tables.
    test_store.run(&format!(
        "insert into turno.inbox_failed (id, queue_priority, failed_at, pushed_at, attempts, abandoned, max_attempts, payload) \
         select id, queue_priority, {{now}}, pushed_at, 1, 0, 1, payload from turno.inbox_item where id = {item}"
    ))
    .await;
    // The control: its attempt cannot be ended.
    let db = test_store.postgres_connection().await;
    let end = format!(
        "select turno.inbox_end_attempt(queue_priority, id, 'abandoned', '', 'w', now()) from turno.inbox_item where id = {item}"
    );
    db.batch_execute(&end).await.unwrap_err();
}
