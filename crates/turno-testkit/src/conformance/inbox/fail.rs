//! Failing: attempts, backoff, and stored errors.

use std::time::Duration;

use turno::inbox::{Again, Failure, ItemState};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A failed attempt is counted and recorded, and the item is retried after the given time.
#[rule]
async fn a_failed_item_is_tried_again(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1"]).await;
    let first = take_one(&inbox).await;
    assert_eq!(first.attempt, 1);
    fail(&inbox, first.claim, LATER).await;
    assert_eq!(counts(&inbox).await, [0, 1, 0, 0, 0]);
    let shown = only(&inbox, ItemState::Scheduled).await;
    assert_eq!((shown.attempts, shown.abandoned), (1, 0));
    let error = &shown.errors[0];
    assert_eq!((error.attempt, error.kind.as_str()), (1, "failed"));
    assert_eq!(error.error, "no money");
    assert_eq!(error.worker.as_deref(), Some("w"));
    let pause = shown.at.unwrap().duration_since(error.at).as_secs_f64();
    assert!((pause - LATER.as_secs_f64()).abs() < 5.0, "{pause}");

    push(&inbox, &["2"]).await;
    let first = take_one(&inbox).await;
    fail(&inbox, first.claim, Duration::ZERO).await;
    let second = take_soon(&inbox).await;
    assert_eq!((second.claim.item, second.attempt), (first.claim.item, 2));
}

/// After the last attempt, the item has failed. It keeps its payload and its errors.
#[rule]
async fn a_last_attempt_sets_it_aside(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let odd = item("1")
        .max_attempts(3)
        .unique_key("k")
        .group("g")
        .priority(2);
    push_all(&inbox, [odd]).await;
    for attempt in 1..=3 {
        let claimed = take_soon(&inbox).await;
        assert_eq!(claimed.attempt, attempt);
        fail(&inbox, claimed.claim, Duration::ZERO).await;
    }
    assert_eq!(take(&inbox, 1).await, []);
    assert_eq!(counts(&inbox).await, [0, 0, 0, 0, 1]);
    let failed = only(&inbox, ItemState::Failed).await;
    assert_eq!(failed.payload.as_deref(), Some("\"1\""));
    assert_eq!(failed.key.as_deref(), Some("k"));
    assert_eq!(failed.group.as_deref(), Some("g"));
    assert_eq!((failed.priority, failed.attempts), (Some(2), 3));
    let attempts: Vec<u32> = failed.errors.iter().map(|error| error.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let apart = failed.at.unwrap().duration_since(failed.errors[2].at);
    assert!(apart.as_secs_f64().abs() < 1.0, "{failed:?}");
}

/// A failure without retry makes the item fail at once; the retry time is ignored.
#[rule]
async fn a_hopeless_item_is_set_aside_at_once(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["1", "2"]).await;
    let held = take(&inbox, 2).await;
    let never = |n: usize, retry_in| Failure {
        again: Again::Never,
        ..failure(held[n].claim, retry_in)
    };
    let failed = inbox
        .fail(&[never(0, None), never(1, Some(Duration::ZERO))])
        .await;
    assert_eq!(failed.unwrap(), all_done(2));
    assert_eq!(counts(&inbox).await, [0, 0, 0, 0, 2]);
}

/// Default backoff: it doubles, with jitter. Its mean is at most one hour.
#[rule]
async fn the_back_off_doubles(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (before, middle) in [(0, 1.0), (1, 2.0), (4, 16.0), (13, 3600.0), (40, 3600.0)] {
        // A separate queue for each: an item that is due after a second must not be claimed by the next step.
        let inbox = turno.inbox(before.to_string());
        push_all(&inbox, [item("1").max_attempts(1000)]).await;
        for _ in 0..before {
            let claimed = take_soon(&inbox).await;
            fail(&inbox, claimed.claim, Duration::ZERO).await;
        }
        let claimed = take_soon(&inbox).await;
        assert_eq!(claimed.attempt, before + 1);
        let failed = inbox.fail(&[failure(claimed.claim, None)]).await;
        assert_eq!(failed.unwrap(), all_done(1));
        // On a slow machine the shortest pause may already be over. The item is then pending, but still has its time.
        let mut all = list(&inbox, ItemState::Scheduled).await;
        all.extend(list(&inbox, ItemState::Pending).await);
        let shown = &all[0];
        let ended = shown.errors.last().unwrap().at;
        let pause = shown.at.unwrap().duration_since(ended).as_secs_f64();
        // The two clock readings of one step may differ a little.
        let range = middle * 0.5 - 0.1..middle * 1.5 + 0.1;
        assert!(range.contains(&pause), "{pause} after {before}");
    }
}

/// Only the last errors are kept. Each is truncated at a character boundary.
#[rule]
async fn errors_are_bounded(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push_all(&inbox, [item("1").max_attempts(12)]).await;
    // One byte and then characters of two bytes: the limit is in the middle of one.
    let long = format!("x{}", "é".repeat(4000));
    for _ in 0..12 {
        let claimed = take_soon(&inbox).await;
        let failure = Failure {
            error: long.clone(),
            ..failure(claimed.claim, Some(Duration::ZERO))
        };
        assert_eq!(inbox.fail(&[failure]).await.unwrap(), all_done(1));
    }
    let failed = only(&inbox, ItemState::Failed).await;
    assert_eq!(failed.attempts, 12);
    let attempts: Vec<u32> = failed.errors.iter().map(|error| error.attempt).collect();
    assert_eq!(attempts, (3..=12).collect::<Vec<u32>>());
    for error in &failed.errors {
        assert_eq!(error.error.len(), 3999);
        assert!(long.starts_with(&error.error));
    }
}

/// Lets an attempt fail with this error, and returns the only stored error of the only failed item.
async fn recorded(inbox: &turno::inbox::Inbox, error: &str) -> String {
    push(inbox, &["1"]).await;
    let failure = Failure {
        error: error.into(),
        again: Again::Never,
        ..failure(take_one(inbox).await.claim, None)
    };
    let failed = inbox.fail(&[failure]).await;
    assert_eq!(failed.unwrap(), all_done(1), "{error:?}");
    let mut shown = list(inbox, ItemState::Failed).await.pop().unwrap();
    shown.errors.remove(0).error
}

/// Any text is a valid error, also an empty one, and one that has to be quoted.
#[rule]
async fn an_error_may_be_any_text(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    for error in ["", "a\nb\t'c' \"d\" \\e {}", "\u{1F980}"] {
        assert_eq!(recorded(&inbox, error).await, error);
    }
}

/// Also one with a zero byte, which not every database can store: the attempt has failed, whatever is kept of its error.
#[rule]
async fn an_error_may_have_a_zero(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let kept = recorded(&inbox, "a\u{0}b").await;
    assert!(kept.starts_with('a') && kept.ends_with('b'), "{kept:?}");
}
