//! Quotas: a scope has a maximum number of live keys.

use std::time::Duration;

use turno::Turno;
use turno::once::{AfterUnknown, Begin, Once};

use crate::conformance::lock::fixtures::secs;
use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Returns a key in a scope with a quota of two.
fn once(turno: &Turno, scope: &str, key: &str) -> Once {
    turno.once(format!("{scope}/{key}")).quota(scope, 2)
}

async fn claim(turno: &Turno, scope: &str, key: &str) -> turno::once::Claim {
    fresh(once(turno, scope, key).begin().await.unwrap())
}

async fn is_full(turno: &Turno, scope: &str) -> bool {
    let begun = once(turno, scope, "one more").begin().await.unwrap();
    match begun {
        Begin::OverQuota => true,
        Begin::Fresh(claim) => {
            claim.release().await.unwrap();
            false
        }
        other => panic!("{other:?}"),
    }
}

/// A scope at its quota gets no new keys; other scopes, and keys without one, are not affected.
#[rule]
async fn a_scope_has_so_many_live_keys(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let one = claim(&turno, "a", "1").await;
    assert!(!is_full(&other, "a").await);
    claim(&other, "a", "2").await.complete("2").await.unwrap();
    assert!(is_full(&turno, "a").await && is_full(&other, "a").await);
    assert_eq!(turno.once("a/one more").status().await.unwrap(), None);
    // Known keys return their state as before.
    in_flight(once(&other, "a", "1").begin().await.unwrap());
    replay(once(&other, "a", "2").begin().await.unwrap());
    assert!(!is_full(&turno, "b").await);
    claim(&turno, "b", "1").await.detach();
    for n in 0..5 {
        take(&turno, &format!("free/{n}")).await.detach();
    }
    let larger = turno.once("a/one more").quota("a", 3);
    fresh(larger.begin().await.unwrap()).detach();
    one.detach();
}

/// Only live keys count: not released ones, nor answers whose TTL is over.
#[rule]
async fn only_live_keys_count(test_store: &TestStore) {
    let turno = test_store.turno().await;
    claim(&turno, "a", "kept").await.detach();
    let given_back = claim(&turno, "a", "given back").await;
    assert!(is_full(&turno, "a").await);
    given_back.release().await.unwrap();
    assert!(!is_full(&turno, "a").await);
    let done = claim(&turno, "a", "done").await;
    done.complete("done").await.unwrap();
    assert!(is_full(&turno, "a").await);
    test_store.expire_once("a/done").await;
    assert!(!is_full(&turno, "a").await);
    let passing = once(&turno, "a", "passing").ttl(Duration::ZERO);
    for _ in 0..3 {
        let claim = fresh(passing.begin().await.unwrap());
        assert!(is_full(&turno, "a").await);
        claim.complete("gone").await.unwrap();
    }
    assert!(!is_full(&turno, "a").await);
}

/// A key that is run again counts once.
#[rule]
async fn a_rerun_is_not_counted_twice(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for key in ["1", "2"] {
        claim(&turno, "a", key)
            .await
            .release_unknown()
            .await
            .unwrap();
    }
    assert!(is_full(&turno, "a").await, "what is unknown is alive");
    for key in ["1", "2"] {
        let again = once(&turno, "a", key).unknown(AfterUnknown::Rerun);
        let again = fresh(again.begin().await.unwrap());
        assert_eq!(again.attempt(), 2);
        again.detach();
    }
    assert!(is_full(&turno, "a").await);
}

/// Long work counts as long as it is extended, and an answer that is kept for longer than its key's TTL counts for that long.
#[rule]
async fn what_lives_longer_than_was_said_counts(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let short = |key| {
        let once = once(&turno, "a", key).ttl(Duration::ZERO);
        once.lease(secs(1))
    };
    let long_work = fresh(short("long work").begin().await.unwrap()).detach();
    let long_kept = fresh(short("long kept").begin().await.unwrap());
    turno.once_extend(&long_work, LONG).await.unwrap();
    long_kept.complete_for("done", LONG).await.unwrap();
    assert!(is_full(&turno, "a").await);
    for key in ["a/long work", "a/long kept"] {
        test_store.age_once(key, secs(10)).await;
    }
    assert!(is_full(&turno, "a").await);
}
