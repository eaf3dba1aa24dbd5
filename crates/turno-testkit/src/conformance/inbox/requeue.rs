//! Give-back, reset and requeue: items that are claimed again.

use std::time::Duration;

use turno::inbox::ItemState;
use turno::store::InboxReset;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::secs;
use crate::conformance::{TestStore, rule};

/// An item that is given back can be claimed at once, and its attempt is not counted.
#[rule]
async fn what_is_given_back_costs_no_attempt(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("1").max_attempts(1)]).await;
    for _ in 0..3 {
        let claimed = take_one(&inbox).await;
        assert_eq!(claimed.attempt, 1);
        let back = inbox.give_back(&[claimed.claim]).await.unwrap();
        assert_eq!(back, all_done(1));
        assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 0]);
        let shown = only(&inbox, ItemState::Pending).await;
        assert_eq!((shown.attempts, shown.abandoned), (0, 0));
        assert_eq!(shown.errors, []);
        let late = inbox.complete(&[claimed.claim]).await.unwrap();
        assert_eq!(late, all_stale(&[claimed.claim]));
    }
}

/// Some items of a claim can be given back; the others stay claimed.
#[rule]
async fn some_of_a_claim_can_be_given_back(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3"]).await;
    let held = take(&inbox, 3).await;
    let back = inbox.give_back(&[held[1].claim]).await.unwrap();
    assert_eq!(back, all_done(1));
    let again = take(&inbox, 10).await;
    assert_eq!(texts(&again), ["2"]);
    complete(&inbox, &[held[0].clone(), held[2].clone()]).await;
    complete(&inbox, &again).await;
    assert_eq!(counts(&inbox).await, [0, 0, 0, 3, 0]);
}

/// A reset ends claims that were held for long; they are stale then.
#[rule]
async fn a_reset_takes_items_away(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push(&inbox, &["1", "2", "3"]).await;
    push(&turno.inbox("other"), &["x"]).await;
    let stuck = take(&inbox, 2).await;
    take_one(&turno.inbox("other")).await;
    test_store.age_claims(secs(600)).await;
    let fresh = take(&inbox, 1).await;
    assert_eq!(inbox.reset(secs(700)).await.unwrap(), 0);
    assert_eq!(inbox.reset(secs(300)).await.unwrap(), 2);
    assert_eq!(counts(&inbox).await, [2, 0, 1, 0, 0]);
    let old = claims(&stuck);
    assert_eq!(inbox.complete(&old).await.unwrap(), all_stale(&old));
    let again = take(&inbox, 10).await;
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|item| item.attempt == 1), "{again:?}");
    complete(&inbox, &again).await;
    complete(&inbox, &fresh).await;
    let others = counts(&turno.inbox("other")).await;
    assert_eq!(others, [0, 0, 1, 0, 0], "another queue's");
    assert_eq!(turno.inbox("unknown").reset(secs(0)).await.unwrap(), 0);
}

/// One step of a reset stops at its limit, between two claims.
#[rule]
async fn a_reset_goes_step_by_step(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push(&inbox, &["1", "2", "3", "4"]).await;
    for _ in 0..2 {
        assert_eq!(take(&inbox, 2).await.len(), 2);
    }
    let ask = InboxReset {
        queue: "q".into(),
        older_than: Duration::ZERO,
        limit: 1,
        user: None,
        reason: None,
    };
    for left in [2, 0] {
        assert_eq!(turno.store().inbox_reset(&ask).await.unwrap(), 2);
        assert_eq!(counts(&inbox).await[2], left);
    }
    assert_eq!(turno.store().inbox_reset(&ask).await.unwrap(), 0);
}

/// A requeue makes failed items pending, with all attempts available again, and keeps their data.
#[rule]
async fn a_requeue_revives_with_all_attempts(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("1").max_attempts(2).unique_key("k")]).await;
    fail(&inbox, take_one(&inbox).await.claim, Duration::ZERO).await;
    take_soon(&inbox).await;
    test_store.expire_claims().await;
    assert_eq!(take(&inbox, 1).await, [], "it has failed");
    let failed = only(&inbox, ItemState::Failed).await;
    assert_eq!((failed.attempts, failed.abandoned), (2, 1));
    assert_eq!(inbox.requeue(None).await.unwrap(), 1);
    assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 0]);
    let shown = only(&inbox, ItemState::Pending).await;
    assert_eq!((shown.attempts, shown.abandoned), (0, 0));
    assert_eq!(shown.errors, failed.errors);
    assert_eq!(shown.pushed_at, failed.pushed_at);
    let claimed = take_one(&inbox).await;
    assert_eq!(claimed.claim.item, failed.id);
    assert_eq!((claimed.attempt, claimed.max_attempts), (1, 2));
    assert_eq!(claimed.key.as_deref(), Some("k"));
    assert_eq!(inbox.requeue(None).await.unwrap(), 0);
}

/// With given ids, items are requeued if they have failed in this queue. Other items are not changed.
#[rule]
async fn a_requeue_of_some_leaves_the_others(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let set = FailedAndOthers::set_up(&turno).await;
    let inbox = &set.inbox;
    assert_eq!(inbox.requeue(Some(&set.named())).await.unwrap(), 1);
    assert_eq!(inbox.requeue(Some(&[])).await.unwrap(), 0);
    set.assert_others_untouched().await;
    let pending = listed(inbox, ItemState::Pending).await;
    assert_eq!(pending, [set.pushed[1], set.pushed[3]]);
    assert_eq!(counts(inbox).await, [2, 0, 0, 1, 1]);
    assert_eq!(turno.inbox("unknown").requeue(None).await.unwrap(), 0);
}

/// One step requeues the oldest failures, up to its limit.
#[rule]
async fn a_requeue_begins_with_the_oldest_failure(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    let pushed = three_failed(&inbox).await;
    let ask = two_oldest(&inbox);
    assert_eq!(turno.store().inbox_requeue(&ask).await.unwrap(), 2);
    assert_eq!(listed(&inbox, ItemState::Failed).await, [pushed[1]]);
    assert_eq!(turno.store().inbox_requeue(&ask).await.unwrap(), 1);
    assert_eq!(turno.store().inbox_requeue(&ask).await.unwrap(), 0);
}
