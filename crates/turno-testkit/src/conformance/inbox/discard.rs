//! Discarding failed items: they are deleted, and their keys stay known.

use turno::inbox::{Inbox, ItemId, ItemState, PushedItem};
use turno::store::Sweep;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::secs;
use crate::conformance::{TestStore, rule};

const DAY: u64 = 24 * 60 * 60;

/// Pushes an item with a key, and lets it fail.
async fn fail_key(inbox: &Inbox, key: &str) -> ItemId {
    let pushed = push_all(inbox, [item(key).unique_key(key)]).await;
    set_aside(inbox, take_one(inbox).await.claim).await;
    pushed[0]
}

/// The item is deleted with its payload and its errors, and is removed from all counters.
#[rule]
async fn a_discarded_item_is_deleted(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("done")]).await;
    complete(&inbox, &take(&inbox, 1).await).await;
    fail_key(&inbox, "a").await;
    fail_key(&inbox, "b").await;
    assert_eq!(counts(&inbox).await, [0, 0, 0, 1, 2]);
    assert_eq!(inbox.discard(None).await.unwrap(), 2);
    assert_eq!(counts(&inbox).await, [0, 0, 0, 1, 0]);
    for state in ItemState::ALL {
        let left = usize::from(state == ItemState::Completed);
        assert_eq!(listed(&inbox, state).await.len(), left, "{state}");
    }
    assert_eq!(test_store.stored_items().await, 0);
    if test_store.is_sqlite() {
        let errors = "select count(*) from turno.inbox_error";
        assert_eq!(test_store.number(errors).await, 0);
    }
    assert_eq!(inbox.discard(None).await.unwrap(), 0);
    assert_eq!(inbox.requeue(None).await.unwrap(), 0);
}

/// With given ids, items are discarded if they have failed in this queue. Other items are not changed.
#[rule]
async fn a_discard_of_some_leaves_the_others(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let set = FailedAndOthers::set_up(&turno).await;
    let inbox = &set.inbox;
    assert_eq!(inbox.discard(Some(&set.named())).await.unwrap(), 1);
    assert_eq!(inbox.discard(Some(&[])).await.unwrap(), 0);
    set.assert_others_untouched().await;
    let pending = listed(inbox, ItemState::Pending).await;
    assert_eq!(pending, set.pushed[3..]);
    assert_eq!(counts(inbox).await, [1, 0, 0, 1, 1]);
    assert_eq!(turno.inbox("unknown").discard(None).await.unwrap(), 0);
}

/// The key of a discarded item stays known until the records of completed items of that age are swept; then it is free.
#[rule]
async fn a_discarded_key_stays_known(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    let id = fail_key(&inbox, "k").await;
    let kept = fail_key(&inbox, "kept").await;
    assert_eq!(inbox.discard(Some(&[id])).await.unwrap(), 1);
    let push = async |key: &str| {
        inbox
            .push(item("x").unique_key(key).delay(LATER))
            .await
            .unwrap()
    };
    let known = |id| PushedItem {
        id,
        duplicate: true,
    };
    assert_eq!(push("k").await, known(id));
    test_store.age_records(secs(6 * DAY)).await;
    turno.sweep(&Sweep::default()).await.unwrap();
    assert_eq!(push("k").await, known(id), "for seven days");
    test_store.age_records(secs(2 * DAY)).await;
    assert!(turno.sweep(&Sweep::default()).await.unwrap().completed > 0);
    assert!(turno.sweep(&Sweep::default()).await.unwrap().is_empty());
    assert!(!push("k").await.duplicate, "the key is free");
    assert_eq!(push("kept").await, known(kept), "its item is still there");
    assert_eq!(counts(&inbox).await, [0, 1, 0, 0, 1]);
    // The key belongs to the new item now, and a discard that finds nothing does not free it.
    assert_eq!(inbox.discard(Some(&[id])).await.unwrap(), 0);
    test_store.age_records(secs(8 * DAY)).await;
    turno.sweep(&Sweep::default()).await.unwrap();
    assert!(push("k").await.duplicate);
}

/// A discard does not affect the group: it continues after the item in flight, one at a time.
#[rule]
async fn a_discard_leaves_the_group_alone(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let all = ["1", "2", "3", "4"].map(|payload| item(payload).group("g"));
    push_all(&inbox, all).await;
    set_aside(&inbox, take_one(&inbox).await.claim).await;
    let second = take(&inbox, 10).await;
    assert_eq!(texts(&second), ["2"]);
    assert_eq!(inbox.discard(None).await.unwrap(), 1);
    assert_eq!(take(&inbox, 10).await, [], "another is at work");
    complete(&inbox, &second).await;
    let third = take_one(&inbox).await;
    set_aside(&inbox, third.claim).await;
    assert_eq!(inbox.discard(Some(&[third.claim.item])).await.unwrap(), 1);
    assert_eq!(texts(&take(&inbox, 10).await), ["4"]);
    assert_eq!(counts(&inbox).await, [0, 0, 1, 1, 0]);
}

/// One step discards the oldest failures, up to its limit.
#[rule]
async fn a_discard_begins_with_the_oldest_failure(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    let pushed = three_failed(&inbox).await;
    let ask = two_oldest(&inbox);
    assert_eq!(turno.store().inbox_discard(&ask).await.unwrap(), 2);
    assert_eq!(listed(&inbox, ItemState::Failed).await, [pushed[1]]);
    assert_eq!(turno.store().inbox_discard(&ask).await.unwrap(), 1);
    assert_eq!(turno.store().inbox_discard(&ask).await.unwrap(), 0);
}
