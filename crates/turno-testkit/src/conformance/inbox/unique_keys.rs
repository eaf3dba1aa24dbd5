//! Unique keys: pushed often, stored once.

use turno::inbox::{Inbox, ItemId, PushedItem};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::{TestStore, rule};

async fn push_key(inbox: &Inbox, payload: &str) -> PushedItem {
    inbox.push(item(payload).unique_key("k")).await.unwrap()
}

/// Checks that the item with the key exists: a push stores nothing, and returns the existing item's id.
async fn is_known(inbox: &Inbox, id: ItemId, when: &str) {
    let before = counts(inbox).await;
    let duplicate = PushedItem {
        id,
        duplicate: true,
    };
    assert_eq!(push_key(inbox, "again").await, duplicate, "{when}");
    assert_eq!(counts(inbox).await, before, "{when}");
}

/// A key is taken in each state of its item, and after its completion.
#[rule]
async fn a_key_is_taken_in_every_state(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    let first = push_key(&inbox, "first").await;
    assert!(!first.duplicate);
    is_known(&inbox, first.id, "pending").await;
    let claimed = take_one(&inbox).await;
    is_known(&inbox, first.id, "processing").await;
    set_aside(&inbox, claimed.claim).await;
    is_known(&inbox, first.id, "failed").await;
    assert_eq!(inbox.requeue(None).await.unwrap(), 1);
    let claimed = take_one(&inbox).await;
    assert_eq!(claimed.key.as_deref(), Some("k"), "kept through a requeue");
    fail(&inbox, claimed.claim, LATER).await;
    is_known(&inbox, first.id, "scheduled").await;

    let other = turno.inbox("other");
    let elsewhere = push_key(&other, "elsewhere").await;
    assert!(!elsewhere.duplicate, "keys are of one queue");
    let claimed = take_one(&other).await;
    assert_eq!(text(&claimed), "elsewhere");
    complete(&other, &[claimed]).await;
    is_known(&other, elsewhere.id, "completed").await;
}

/// A key that occurs twice in one push is stored once, the first time. Other items of the push are stored.
#[rule]
async fn a_key_twice_in_one_push_is_stored_once(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let known = push_key(&inbox, "known").await;
    let pushed = inbox
        .push_many([
            item("a").unique_key("new"),
            item("b"),
            item("c").unique_key("k"),
            item("d").unique_key("new"),
            item("e"),
        ])
        .await
        .unwrap();
    let duplicates: Vec<bool> = pushed.iter().map(|item| item.duplicate).collect();
    assert_eq!(duplicates, [false, false, true, true, false]);
    assert_eq!(pushed[2].id, known.id);
    assert_eq!(pushed[3].id, pushed[0].id);
    assert!(pushed[0].id < pushed[1].id && pushed[1].id < pushed[4].id);
    assert_eq!(texts(&take(&inbox, 10).await), ["known", "a", "b", "e"]);
    assert_eq!(test_store.stored_items().await, 4);
}

/// Of many concurrent pushes of one key, one stores it, and all return the same id.
#[rule]
async fn of_many_pushes_of_one_key_one_stores_it(test_store: &TestStore) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let inbox = test_store.turno().await.inbox("q");
        tasks.spawn(async move { push_key(&inbox, "x").await });
    }
    let answers = tasks.join_all().await;
    let fresh = answers.iter().filter(|answer| !answer.duplicate).count();
    assert_eq!(fresh, 1, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.id == answers[0].id),
        "{answers:?}"
    );
    assert_eq!(test_store.stored_items().await, 1);
}

/// The control: without the key the same pushes are all stored.
#[rule]
async fn pushes_without_a_key_are_all_stored(test_store: &TestStore) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let inbox = test_store.turno().await.inbox("q");
        tasks.spawn(async move { push(&inbox, &["x"]).await });
    }
    tasks.join_all().await;
    assert_eq!(test_store.stored_items().await, 6);
}
