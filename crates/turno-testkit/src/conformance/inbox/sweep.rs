//! Sweeping the inbox: old records are deleted, and the counts stay.

use turno::inbox::{Inbox, ItemId, ItemState};
use turno::store::{History, HistoryEvent, InboxPush, NewItem, Part, SWEPT_FAILED, Sweep, Swept};
use uuid::Uuid;

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::secs;
use crate::conformance::{TestStore, rule};

const DAY: u64 = 24 * 60 * 60;

fn sweep() -> Sweep {
    Sweep {
        keep_completed: secs(DAY),
        ..Default::default()
    }
}

async fn push_done(inbox: &Inbox, key: &str) {
    push_all(inbox, [item("x").unique_key(key)]).await;
    complete(inbox, &take(inbox, 1).await).await;
}

/// Records of completions that are old enough are deleted with their keys; the count stays.
#[rule]
async fn a_sweep_forgets_completed_items(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    push_done(&inbox, "old").await;
    assert_eq!(turno.sweep(&sweep()).await.unwrap(), Swept::default());
    test_store.age_records(secs(2 * DAY)).await;
    push_done(&inbox, "new").await;
    let known = async |key: &str| {
        let pushed = inbox.push(item("x").unique_key(key).delay(LATER)).await;
        pushed.unwrap().duplicate
    };
    assert!(known("old").await, "until it is swept");
    assert!(turno.sweep(&sweep()).await.unwrap().completed > 0);
    assert_eq!(listed(&inbox, ItemState::Completed).await.len(), 1);
    assert!(known("new").await, "it is kept for longer");
    assert!(!known("old").await, "the key is free");
    assert_eq!(counts(&inbox).await, [0, 1, 0, 2, 0]);
    assert!(turno.sweep(&sweep()).await.unwrap().is_empty());
}

/// Items that are not completed are never swept, nor their keys, however old.
#[rule]
async fn a_sweep_keeps_what_is_not_done(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    for key in ["failed", "held", "lost"] {
        push_all(&inbox, [item(key).unique_key(key)]).await;
    }
    push_all(&inbox, [item("later").unique_key("later").delay(LATER)]).await;
    set_aside(&inbox, take_one(&inbox).await.claim).await;
    let held = take(&inbox, 2).await;
    test_store.expire_claims().await;
    test_store.age_claims(secs(30 * DAY)).await;
    test_store.age_records(secs(30 * DAY)).await;
    let now = Sweep {
        keep_completed: secs(0),
        ..Default::default()
    };
    turno.sweep(&now).await.unwrap();
    assert_eq!(counts(&inbox).await, [2, 1, 0, 0, 1]);
    for key in ["failed", "held", "lost", "later"] {
        let again = inbox.push(item("x").unique_key(key)).await.unwrap();
        assert!(again.duplicate, "{key}");
    }
    // An expired claim is not changed: it is valid until it is taken over.
    complete(&inbox, &held).await;
}

/// A sweep runs in batches, and deletes all that it should.
#[rule]
async fn a_sweep_of_the_inbox_goes_batch_by_batch(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    for n in 0..5 {
        push_done(&inbox, &n.to_string()).await;
    }
    test_store.age_records(secs(2 * DAY)).await;
    let small = Sweep {
        batch: 2,
        ..sweep()
    };
    let once = turno.store().sweep(&small).await.unwrap();
    assert!(once.completed > 0);
    assert_eq!(listed(&inbox, ItemState::Completed).await.len(), 3);
    turno.sweep(&small).await.unwrap();
    assert_eq!(listed(&inbox, ItemState::Completed).await, []);
    for n in 0..5 {
        let again = inbox
            .push(item("x").unique_key(n.to_string()))
            .await
            .unwrap();
        assert!(!again.duplicate, "{n}");
    }
    assert_eq!(counts(&inbox).await, [5, 0, 0, 5, 0]);
}

async fn push_failed(inbox: &Inbox, key: &str) -> ItemId {
    let pushed = push_all(inbox, [item("x").unique_key(key)]).await;
    set_aside(inbox, take_one(inbox).await.claim).await;
    pushed[0]
}

/// By default failed items are kept, however old. With the option, a sweep deletes those that are old enough, as a discard
/// does.
#[rule]
async fn a_sweep_deletes_failed_items_if_asked(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    let old = push_failed(&inbox, "old").await;
    push_failed(&turno.inbox("other"), "old").await;
    test_store.age_failures(secs(2 * DAY)).await;
    let new = push_failed(&inbox, "new").await;
    assert!(turno.sweep(&sweep()).await.unwrap().is_empty());
    assert_eq!(listed(&inbox, ItemState::Failed).await, [old, new]);
    let asked = Sweep {
        keep_failed: Some(secs(DAY)),
        ..sweep()
    };
    let deleted = Swept {
        failed: 2,
        ..Swept::default()
    };
    assert_eq!(turno.sweep(&asked).await.unwrap(), deleted);
    assert_eq!(listed(&inbox, ItemState::Failed).await, [new]);
    assert_eq!(counts(&inbox).await, [0, 0, 0, 0, 1]);
    assert_eq!(counts(&turno.inbox("other")).await, [0; 5]);
    let push = async || inbox.push(item("x").unique_key("old")).await.unwrap();
    let again = push().await;
    assert_eq!((again.id, again.duplicate), (old, true), "its key is kept");
    assert!(turno.sweep(&asked).await.unwrap().is_empty());
    test_store.age_records(secs(2 * DAY)).await;
    turno.sweep(&asked).await.unwrap();
    assert!(!push().await.duplicate, "the key is free");
}

/// It runs in batches, over all queues.
#[rule]
async fn a_sweep_of_failed_items_goes_batch_by_batch(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for n in 0..5 {
        let queue = if n < 3 { "a" } else { "b" };
        push_failed(&turno.inbox(queue), &n.to_string()).await;
    }
    test_store.age_failures(secs(2 * DAY)).await;
    let small = Sweep {
        keep_failed: Some(secs(DAY)),
        batch: 2,
        ..sweep()
    };
    for deleted in [2, 2, 1, 0] {
        let swept = turno.store().sweep(&small).await.unwrap();
        assert_eq!(swept.failed, deleted);
    }
    assert_eq!(test_store.stored_items().await, 0);
}

/// What it deletes is in the history: one entry for each queue, with how many items; a sweep without any leaves none.
#[rule]
async fn swept_failures_are_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for n in 0..5 {
        let queue = if n < 3 { "a" } else { "b" };
        push_failed(&turno.inbox(queue), &n.to_string()).await;
    }
    push_done(&turno.inbox("c"), "done").await;
    test_store.age_failures(secs(2 * DAY)).await;
    push_failed(&turno.inbox("a"), "new").await;
    let asked = Sweep {
        keep_failed: Some(secs(DAY)),
        ..sweep()
    };
    for _ in 0..2 {
        turno.sweep(&asked).await.unwrap();
        let mut events = turno.store().history(&History::default()).await.unwrap();
        events.sort_by(|a, b| a.resource.cmp(&b.resource));
        let events: Vec<_> = events
            .iter()
            .map(|entry| {
                assert_eq!(
                    (entry.part, entry.event),
                    (Part::Inbox, HistoryEvent::Discarded)
                );
                assert_eq!(entry.actor, None, "no person did it");
                assert_eq!(entry.reason.as_deref(), Some(SWEPT_FAILED));
                (entry.resource.as_str(), entry.count)
            })
            .collect();
        assert_eq!(events, [("a", Some(3)), ("b", Some(2))]);
    }
}

/// Answers are kept for ten minutes at least; after that they may be forgotten.
#[rule]
async fn a_sweep_keeps_recent_answers(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ask = InboxPush {
        queue: "q".into(),
        items: vec![NewItem {
            payload: "1".into(),
            key: None,
            label: None,
            priority: 1,
            due: None,
            group: None,
            max_attempts: 5,
        }],
        request: Uuid::now_v7(),
    };
    let first = turno.store().inbox_push(&ask).await.unwrap();
    test_store.age_records(secs(9 * 60)).await;
    turno.sweep(&sweep()).await.unwrap();
    assert_eq!(turno.store().inbox_push(&ask).await.unwrap(), first);
    test_store.age_records(secs(2 * 60)).await;
    turno.sweep(&sweep()).await.unwrap();
    let stored = "select count(*) from turno.inbox_request";
    assert_eq!(test_store.number(stored).await, 0);
}
