//! Pushing: stored items, and when they can be claimed.

use std::time::Duration;

use turno::inbox::{Item, ItemState};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

/// Ids grow within one push and from one push to the next, across queues and instances.
#[rule]
async fn ids_grow_in_the_order_of_the_pushes(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let mut all = Vec::new();
    for round in 0..3 {
        all.extend(push(&turno.inbox("a"), &["1", "2", "3"]).await);
        all.extend(push(&other.inbox(format!("b/{round}")), &["4"]).await);
    }
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    assert_eq!(listed(&other.inbox("a"), ItemState::Pending).await.len(), 9);
}

/// A claim returns an item as it was pushed: its payload byte for byte, and all of its options.
#[rule]
async fn an_item_is_claimed_as_it_was_pushed(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let payload = r#"{"b": 1.10, "a": 123456789012345678901234567890, "ñ": "\u0041\"é\n"}"#;
    let item = Item::from_json(payload).unique_key("k/é").group("g'1");
    let pushed = turno
        .inbox("q")
        .push(item.priority(3).max_attempts(7))
        .await
        .unwrap();
    assert!(!pushed.duplicate);
    let claimed = take_one(&other.inbox("q")).await;
    assert_eq!(claimed.claim.item, pushed.id);
    assert_eq!(claimed.payload, payload);
    assert_eq!(claimed.key.as_deref(), Some("k/é"));
    assert_eq!(claimed.group.as_deref(), Some("g'1"));
    assert_eq!((claimed.priority, claimed.max_attempts), (3, 7));
    assert_eq!(claimed.attempt, 1);
    assert!(claimed.expires_at > claimed.pushed_at, "{claimed:?}");

    turno.inbox("plain").push(&()).await.unwrap();
    let claimed = take_one(&other.inbox("plain")).await;
    assert_eq!((claimed.payload.as_str(), claimed.priority), ("null", 1));
    assert_eq!((claimed.key, claimed.group), (None, None));
    assert_eq!(claimed.max_attempts, 5);
}

/// An item whose due time is in the future is scheduled, and cannot be claimed.
#[rule]
async fn a_delayed_item_waits_for_its_time(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    // Stores keep microseconds.
    let time = (turno::clock::machine() + LATER).as_microsecond();
    let time = jiff::Timestamp::from_microsecond(time).unwrap();
    let later = [item("delay").delay(LATER), item("at").at(time)];
    let pushed = push_all(&inbox, later).await;
    assert_eq!(take(&inbox, 10).await, []);
    assert_eq!(counts(&inbox).await, [0, 2, 0, 0, 0]);
    let shown = list(&inbox, ItemState::Scheduled).await;
    assert_eq!([shown[0].id, shown[1].id], pushed[..]);
    assert_eq!(shown[1].at, Some(time));
    let delay = shown[0].at.unwrap();
    let delay = delay.duration_since(shown[0].pushed_at.unwrap());
    // The two clock readings of one step may differ a little.
    let apart = (delay.as_secs_f64() - LATER.as_secs_f64()).abs();
    assert!(apart < 1.0, "{delay:?}");
}

/// At its due time an item is claimed like any other; an item whose due time is past, at once.
#[rule]
async fn a_delayed_item_is_claimed_in_time(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("soon").delay(Duration::from_millis(50))]).await;
    let claimed = take_soon(&inbox).await;
    assert_eq!(text(&claimed), "soon");
    let waited = turno::clock::machine().duration_since(claimed.pushed_at);
    assert!(waited.as_millis() >= 50, "{waited:?}");
    let past = turno::clock::machine() - LATER;
    push_all(
        &inbox,
        [item("past").at(past), item("now").delay(Duration::ZERO)],
    )
    .await;
    let mut both = texts(&take(&inbox, 2).await);
    both.sort();
    assert_eq!(both, ["now", "past"]);
}

/// Queues are independent.
#[rule]
async fn queues_are_apart(test_store: &TestStore) {
    let turno = test_store.turno().await;
    push(&turno.inbox("a"), &["1"]).await;
    assert_eq!(take(&turno.inbox("b"), 10).await, []);
    assert_eq!(take(&turno.inbox("A"), 10).await, []);
    push(&turno.inbox("b"), &["2"]).await;
    let claimed = take_one(&turno.inbox("a")).await;
    assert_eq!(counts(&turno.inbox("b")).await, [1, 0, 0, 0, 0]);
    complete(&turno.inbox("a"), &[claimed]).await;
    assert_eq!(counts(&turno.inbox("b")).await, [1, 0, 0, 0, 0]);
}

/// An empty push succeeds and stores nothing.
#[rule]
async fn a_push_of_nothing_is_nothing(test_store: &TestStore) {
    let turno = test_store.turno().await;
    assert_eq!(
        turno.inbox("q").push_many([] as [Item; 0]).await.unwrap(),
        []
    );
    assert_eq!(turno.inbox_stats("").await.unwrap(), []);
}

/// Concurrent pushes of many instances lose no item, and no id is assigned twice.
#[rule]
async fn pushes_at_once_lose_nothing(test_store: &TestStore) {
    const EACH: usize = 40;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..4 {
        let inbox = test_store.turno().await.inbox("q");
        tasks.spawn(async move {
            let mut mine = Vec::new();
            for n in 0..EACH / 4 {
                let payloads: Vec<String> = (0..4).map(|m| format!("{task}/{n}/{m}")).collect();
                let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
                mine.extend(push(&inbox, &payloads).await);
            }
            assert!(mine.is_sorted_by(|one, next| one < next), "{mine:?}");
            mine
        });
    }
    let mut all: Vec<_> = tasks.join_all().await.concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4 * EACH);
    let inbox = test_store.turno().await.inbox("q");
    let mut claimed = Vec::new();
    crate::eventually_async(TIMEOUT, "all that was pushed", async || {
        claimed.extend(ids(&take(&inbox, 1000).await));
        (claimed.len() == all.len()).then_some(())
    })
    .await;
    claimed.sort();
    assert_eq!(claimed, all);
}
