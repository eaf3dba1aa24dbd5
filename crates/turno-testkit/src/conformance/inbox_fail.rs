//! Failing: attempts, back-off, and what is kept of what went wrong.

use std::time::Duration;

use turno::inbox::{Again, Failure, ItemState};

use super::Bed;
use super::inbox_kit::*;

/// A failed attempt is counted and recorded, and the item is tried again after the time that was named.
pub async fn a_failed_item_is_tried_again(bed: &Bed) {
    let inbox = bed.turno().await.inbox("q");
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

/// With no attempts left it is set aside, with its payload and its errors.
pub async fn a_last_attempt_sets_it_aside(bed: &Bed) {
    let inbox = bed.turno().await.inbox("q");
    let odd = item("1").max_attempts(3).key("k").group("g").priority(2);
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

/// Said never to be tried again, it is set aside at once; a time to retry is not listened to then.
pub async fn a_hopeless_item_is_set_aside_at_once(bed: &Bed) {
    let inbox = bed.turno().await.inbox("q");
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

/// If no time is named the pause doubles, with jitter around it, and an hour is its middle at the most.
pub async fn the_back_off_doubles(bed: &Bed) {
    let turno = bed.turno().await;
    for (before, middle) in [(0, 1.0), (1, 2.0), (4, 16.0), (13, 3600.0), (40, 3600.0)] {
        // A queue for each: what is tried again after a second must not be met by the next.
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
        // On a slow machine the shortest may be over already: its time is shown all the same.
        let mut all = list(&inbox, ItemState::Scheduled).await;
        all.extend(list(&inbox, ItemState::Pending).await);
        let shown = &all[0];
        let ended = shown.errors.last().unwrap().at;
        let pause = shown.at.unwrap().duration_since(ended).as_secs_f64();
        // The two clock readings of one step may be a little apart.
        let range = middle * 0.5 - 0.1..middle * 1.5 + 0.1;
        assert!(range.contains(&pause), "{pause} after {before}");
    }
}

/// Only the last errors are kept, each cut to a length, between two characters.
pub async fn errors_are_bounded(bed: &Bed) {
    let inbox = bed.turno().await.inbox("q");
    push_all(&inbox, [item("1").max_attempts(12)]).await;
    // Two bytes each, and one before: the bound falls into the middle of one.
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

/// The only failed item's only error, after an attempt that failed with this one.
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

/// Any text is an error, also an empty one, and one that has to be quoted.
pub async fn an_error_may_be_any_text(bed: &Bed) {
    let inbox = bed.turno().await.inbox("q");
    for error in ["", "a\nb\t'c' \"d\" \\e {}", "\u{1F980}"] {
        assert_eq!(recorded(&inbox, error).await, error);
    }
}

/// Also one with a zero, which not every database can keep: the attempt has failed, whatever is kept of its error.
pub async fn an_error_may_have_a_zero(bed: &Bed) {
    let inbox = bed.turno().await.inbox("q");
    let kept = recorded(&inbox, "a\u{0}b").await;
    assert!(kept.starts_with('a') && kept.ends_with('b'), "{kept:?}");
}
