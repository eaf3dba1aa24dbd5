//! Sweeping: only a cleanup, never needed for correctness.

use std::time::Duration;

use turno::Turno;
use turno::lock::Sweep;
use turno::once::OnceState;

use crate::conformance::lock::fixtures::secs;
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

async fn swept(turno: &Turno) -> u64 {
    turno.sweep(&Sweep::default()).await.unwrap().once
}

/// Answers after their TTL and released keys are deleted; all others stay.
#[rule]
async fn a_sweep_forgets_answers_past_their_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for key in ["over", "live"] {
        answer(&turno, key, "done").await;
    }
    take(&turno, "given back").await.release().await.unwrap();
    let passing = turno.once("passing").ttl(Duration::ZERO);
    let passing = fresh(passing.begin().await.unwrap());
    passing.complete("done").await.unwrap();
    take(&turno, "in flight").await.detach();
    assert_eq!(swept(&turno).await, 0, "nothing is due for a look yet");
    for key in ["over", "given back", "passing"] {
        test_store.age_once(key, DAY + secs(60)).await;
    }
    test_store.age_once("live", DAY - secs(60)).await;
    assert_eq!(swept(&turno).await, 3);
    assert_eq!(swept(&turno).await, 0);
    assert_eq!(test_store.stored_keys().await, 2);
    replay(begin(&turno, "live").await);
    in_flight(begin(&turno, "in flight").await);
    let next = take(&turno, "over").await;
    assert_eq!(next.attempt(), 1);
    next.detach();
}

/// An answer that is kept for longer than its key's TTL stays for that long.
#[rule]
async fn a_sweep_keeps_what_is_kept_for_longer(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let once = turno.once("k").lease(secs(1)).ttl(secs(1));
    let claim = fresh(once.begin().await.unwrap());
    claim.complete_for("done", DAY).await.unwrap();
    test_store.age_once("k", secs(60)).await;
    assert_eq!(swept(&turno).await, 0);
    replay(begin(&turno, "k").await);
    test_store.age_once("k", DAY).await;
    assert_eq!(swept(&turno).await, 1);
}

/// A lost run is kept for at least a day, however short the TTL of its answer.
#[rule]
async fn a_sweep_keeps_what_is_unknown(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for (key, ttl) in [("zero", Duration::ZERO), ("long", DAY * 3)] {
        fresh(turno.once(key).ttl(ttl).begin().await.unwrap()).detach();
        test_store.expire_once(key).await;
        test_store.age_once(key, DAY - secs(60)).await;
    }
    for _ in 0..2 {
        assert_eq!(swept(&turno).await, 0);
        unknown(begin(&turno, "zero").await);
        unknown(begin(&turno, "long").await);
    }
    for key in ["zero", "long"] {
        test_store.age_once(key, secs(120)).await;
    }
    assert_eq!(swept(&turno).await, 1);
    assert_eq!(turno.once("zero").status().await.unwrap(), None);
    unknown(begin(&turno, "long").await);
    test_store.age_once("long", DAY * 2).await;
    assert_eq!(swept(&turno).await, 1);
    assert_eq!(test_store.stored_keys().await, 0);
}

/// A run that is extended again and again is not swept.
#[rule]
async fn a_sweep_keeps_a_long_run(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let once = turno.once("k").lease(secs(1)).ttl(Duration::ZERO);
    let claim = fresh(once.begin().await.unwrap());
    for _ in 0..3 {
        turno.once_extend(claim.id(), LONG).await.unwrap();
        test_store.age_once("k", LONG / 2).await;
        assert_eq!(swept(&turno).await, 0);
        assert_eq!(status(&turno, "k").await.state, OnceState::InFlight);
    }
    let settled = claim.complete_for("done", LONG).await.unwrap();
    assert_eq!(settled, turno::once::OnceSettled::Done);
    assert_eq!(swept(&turno).await, 0);
    replay(begin(&turno, "k").await);
}

/// A sweep runs in batches, and continues after rows that it has to keep.
#[rule]
async fn a_sweep_of_once_goes_batch_by_batch(test_store: &TestStore) {
    let turno = test_store.turno().await;
    // Rows that are due for a check, and have to be kept; they precede the others.
    for n in 0..5 {
        let once = turno.once(format!("kept/{n}")).ttl(Duration::ZERO);
        fresh(once.begin().await.unwrap()).detach();
        test_store.expire_once(&format!("kept/{n}")).await;
        test_store.age_once(&format!("kept/{n}"), secs(600)).await;
    }
    for n in 0..5 {
        let key = format!("over/{n}");
        answer(&turno, &key, "done").await;
        test_store.age_once(&key, DAY + secs(60)).await;
    }
    let small = Sweep {
        batch: 2,
        ..Sweep::default()
    };
    let mut gone = Vec::new();
    for _ in 0..8 {
        let swept = turno.store().sweep(&small).await.unwrap().once;
        assert!(swept <= 2, "{swept}");
        gone.push(swept);
    }
    assert_eq!(gone.iter().sum::<u64>(), 5, "{gone:?}");
    assert_eq!(test_store.stored_keys().await, 5);
}
