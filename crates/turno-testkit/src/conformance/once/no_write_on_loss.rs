//! A begin that gets no claim writes nothing: no row, no row lock, no commit.

use turno::once::{AfterUnknown, Begin};

use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// In flight, done, unknown, other content, over the quota: a caller that only gets the state leaves no trace.
#[rule]
async fn being_turned_away_writes_nothing(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let begin = async |key: &str| {
        let once = turno.once(key).fingerprint("f").quota("a", 3);
        fresh(once.begin().await.unwrap())
    };
    begin("in flight").await.detach();
    begin("done").await.complete("done").await.unwrap();
    begin("unknown").await.release_unknown().await.unwrap();
    let watch = test_store.watch().await;
    let before = watch.look().await;
    for key in ["in flight", "done", "unknown"] {
        let once = other.once(key).fingerprint("f");
        let outcome = once.begin().await.unwrap();
        match key {
            "in flight" => drop(in_flight(outcome)),
            "done" => drop(replay(outcome)),
            _ => drop(unknown(outcome)),
        }
        assert_eq!(watch.look().await, before, "a trace at {key}");
        let rerun = other.once(key).fingerprint("g");
        let outcome = rerun.unknown(AfterUnknown::Rerun).begin().await.unwrap();
        assert!(matches!(outcome, Begin::Mismatch), "{outcome:?}");
        assert_eq!(
            watch.look().await,
            before,
            "a trace of the mismatch at {key}"
        );
    }
    let outcome = other.once("in flight").unknown(AfterUnknown::Rerun);
    in_flight(outcome.begin().await.unwrap());
    assert_eq!(watch.look().await, before);
    let outcome = other.once("new").quota("a", 3).begin().await.unwrap();
    assert!(matches!(outcome, Begin::OverQuota), "{outcome:?}");
    if !test_store.is_sqlite() {
        // A single writer commits even if nothing changed.
        assert_eq!(watch.look().await, before);
    }
    assert_eq!(test_store.stored_keys().await, 3);
}

/// The same in a batch in which most callers get no claim.
#[rule]
async fn a_crowd_turned_away_writes_nothing(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    take(&turno, "in flight").await.detach();
    answer(&turno, "done", "done").await;
    let watch = test_store.watch().await;
    let before = watch.look().await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..40 {
        let key = if n % 2 == 0 { "in flight" } else { "done" };
        let once = other.once(key);
        tasks.spawn(async move { once.begin().await.unwrap() });
    }
    for begun in tasks.join_all().await {
        assert!(
            matches!(begun, Begin::InFlight(_) | Begin::Replay(_)),
            "{begun:?}"
        );
    }
    assert_eq!(watch.look().await, before);
}
