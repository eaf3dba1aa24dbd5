//! Settings of a queue: what they let begin, over all workers, and what they record.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use turno::history::{History, HistoryEvent, Part};
use turno::inbox::{Inbox, QueueSettings, Rate, SettingsChange};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::lock::fixtures::{TIMEOUT, secs};
use crate::conformance::{TestStore, rule};

async fn limit(inbox: &Inbox, most: u32) {
    let change = SettingsChange::default().max_running(most);
    let settings = inbox.configure(change).await.unwrap();
    assert_eq!(settings.max_running, Some(most));
}

/// A paused queue gives no items, to one or to many; items in flight are completed, and pushes are stored.
#[rule]
async fn a_paused_queue_gives_no_items(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let other = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3"]).await;
    let held = take_one(&inbox).await;
    assert!(inbox.pause().await.unwrap().paused);
    for count in [1, 10] {
        assert_eq!(take(&inbox, count).await, []);
        assert_eq!(take(&other, count).await, []);
    }
    complete(&inbox, &[held]).await;
    push(&other, &["4"]).await;
    assert_eq!(take(&other, 1).await, []);
    assert!(!other.resume().await.unwrap().paused);
    assert_eq!(texts(&take(&inbox, 10).await), ["2", "3", "4"]);
}

/// A claim that waits gets its item when the queue is resumed.
#[rule]
async fn a_resume_wakes_a_waiting_claim(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let other = test_store.turno().await.inbox("q");
    push(&inbox, &["1"]).await;
    inbox.pause().await.unwrap();
    let waiting = tokio::spawn(async move { other.claim().worker("w").wait(TIMEOUT).take().await });
    // It has claimed once, or is about to.
    tokio::task::yield_now().await;
    inbox.resume().await.unwrap();
    assert_eq!(texts(&waiting.await.unwrap().unwrap()), ["1"]);
}

/// At most `max_running` items are in flight, in whatever way others end.
#[rule]
async fn no_more_items_run_than_the_limit(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let other = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3", "4", "5", "6"]).await;
    limit(&inbox, 2).await;
    let held = take(&other, 10).await;
    assert_eq!(texts(&held), ["1", "2"]);
    for count in [1, 10] {
        assert_eq!(take(&inbox, count).await, []);
    }
    complete(&other, &held[..1]).await;
    let third = take(&inbox, 10).await;
    assert_eq!(texts(&third), ["3"]);
    set_aside(&inbox, third[0].claim).await;
    let fourth = take(&other, 1).await;
    assert_eq!(texts(&fourth), ["4"]);
    inbox.give_back(&claims(&fourth)).await.unwrap();
    assert_eq!(texts(&take(&inbox, 10).await), ["4"]);
    assert_eq!(take(&other, 10).await, []);
    // The items of workers that are gone free their places, and take them again.
    test_store.expire_claims().await;
    assert_eq!(take(&other, 10).await.len(), 2);
    assert_eq!(take(&other, 10).await, []);
}

/// What was claimed before there was a limit counts. A higher limit lets more items begin, and none lets all.
#[rule]
async fn a_limit_counts_what_is_in_flight(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3", "4", "5"]).await;
    let held = take(&inbox, 2).await;
    limit(&inbox, 1).await;
    complete(&inbox, &held[..1]).await;
    assert_eq!(take(&inbox, 10).await, []);
    limit(&inbox, 3).await;
    assert_eq!(texts(&take(&inbox, 10).await), ["3", "4"]);
    let none = SettingsChange::default().max_running(None);
    let settings = inbox.configure(none).await.unwrap();
    assert_eq!(settings, QueueSettings::default());
    assert_eq!(texts(&take(&inbox, 10).await), ["5"]);
}

/// A claim that waits for a place gets it when another item ends.
#[rule]
async fn the_end_of_an_item_wakes_a_claim_that_waits_for_its_place(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let other = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2"]).await;
    limit(&inbox, 1).await;
    let held = take_one(&inbox).await;
    let waiting = tokio::spawn(async move { other.claim().worker("w").wait(TIMEOUT).take().await });
    tokio::task::yield_now().await;
    complete(&inbox, &[held]).await;
    assert_eq!(texts(&waiting.await.unwrap().unwrap()), ["2"]);
}

/// Also when many workers claim and complete at the same time.
#[rule]
async fn the_limit_holds_for_workers_side_by_side(test_store: &TestStore) {
    const LIMIT: usize = 3;
    const ITEMS: usize = 60;
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, (0..ITEMS).map(|number| item(&number.to_string()))).await;
    limit(&inbox, u32::try_from(LIMIT).unwrap()).await;
    let (running, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for number in 0..6_u32 {
        let inbox = test_store.turno().await.inbox("q");
        let (running, done) = (running.clone(), done.clone());
        workers.spawn(async move {
            while done.load(Ordering::SeqCst) < ITEMS {
                let items = take(&inbox, 1 + number % 3).await;
                let now = running.fetch_add(items.len(), Ordering::SeqCst) + items.len();
                assert!(now <= LIMIT, "{now} are in flight");
                if items.is_empty() {
                    tokio::task::yield_now().await;
                    continue;
                }
                // Before they end in the store, where others may begin then.
                running.fetch_sub(items.len(), Ordering::SeqCst);
                complete(&inbox, &items).await;
                done.fetch_add(items.len(), Ordering::SeqCst);
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(counts(&inbox).await[3], ITEMS as u64);
}

/// A rate lets a burst begin, and then one item after the other; another rate begins anew.
#[rule]
async fn a_rate_lets_items_begin_one_after_the_other(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2", "3", "4", "5", "6", "7"]).await;
    let rate = |rate: Rate| SettingsChange::default().rate(rate);
    inbox
        .configure(rate(Rate::new(1, secs(3600))))
        .await
        .unwrap();
    assert_eq!(texts(&take(&inbox, 10).await), ["1"]);
    for count in [1, 10] {
        assert_eq!(take(&inbox, count).await, []);
    }
    inbox
        .configure(rate(Rate::new(1, secs(3600)).burst(3)))
        .await
        .unwrap();
    assert_eq!(texts(&take(&inbox, 2).await), ["2", "3"]);
    assert_eq!(texts(&take(&inbox, 10).await), ["4"]);
    assert_eq!(take(&inbox, 10).await, []);
    // The next ones become due after a moment, and nothing is pushed meanwhile.
    inbox
        .configure(rate(Rate::new(100, secs(1))))
        .await
        .unwrap();
    for text in ["5", "6"] {
        let claim = inbox.claim().worker("w").lease(LONG).wait(TIMEOUT);
        assert_eq!(texts(&claim.take().await.unwrap()), [text]);
    }
    inbox
        .configure(SettingsChange::default().rate(None))
        .await
        .unwrap();
    assert_eq!(texts(&take(&inbox, 10).await), ["7"]);
}

/// A queue has settings before its first push, and other queues have their own.
#[rule]
async fn settings_are_of_one_queue(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (inbox, other) = (turno.inbox("q"), turno.inbox("other"));
    assert_eq!(inbox.settings().await.unwrap(), QueueSettings::default());
    inbox.pause().await.unwrap();
    push(&inbox, &["1"]).await;
    push(&other, &["2"]).await;
    assert_eq!(take(&inbox, 1).await, []);
    assert_eq!(texts(&take(&other, 1).await), ["2"]);
    assert!(inbox.settings().await.unwrap().paused);
    assert_eq!(other.settings().await.unwrap(), QueueSettings::default());
}

/// Each change is in the history, with both values, user and reason; what changes nothing is not.
#[rule]
async fn a_change_of_settings_is_in_the_history(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let operator = turno.inbox("q").user("ana").reason("the printer is full");
    operator.pause().await.unwrap();
    operator.pause().await.unwrap();
    let ask = History {
        part: Some(Part::Inbox),
        resource: Some("q".to_owned()),
        ..History::default()
    };
    let history = turno.store().history(&ask).await.unwrap();
    assert_eq!(history.len(), 1, "{history:?}");
    let entry = &history[0];
    assert_eq!(entry.event, HistoryEvent::Changed);
    assert_eq!(entry.actor.as_deref(), Some("ana"));
    let reason = entry.reason.as_deref().unwrap_or_default();
    assert!(reason.starts_with("from {} to {\"paused\":"), "{reason}");
    assert!(reason.ends_with(": the printer is full"), "{reason}");
}

/// Invalid settings are rejected, and change nothing.
#[rule]
async fn invalid_settings_are_rejected(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let inbox = turno.inbox("q");
    let change = SettingsChange::default;
    let day = secs(24 * 3600);
    for (field, change) in [
        ("max_running", change().max_running(0)),
        ("max_running", change().max_running(1_000_001)),
        ("rate", change().rate(Rate::new(0, secs(1)))),
        ("rate", change().rate(Rate::new(1, secs(1)).burst(0))),
        ("rate", change().rate(Rate::new(1, Duration::ZERO))),
        ("rate", change().rate(Rate::new(1, day + secs(1)))),
    ] {
        let error = inbox.configure(change).await.unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    }
    let error = turno.inbox("$outbox").pause().await.unwrap_err();
    assert_eq!(error.field(), Some("queue"));
    assert_eq!(inbox.settings().await.unwrap(), QueueSettings::default());
}
