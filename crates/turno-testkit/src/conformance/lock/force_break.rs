//! An operator breaks a lock.

use turno::Token;
use turno::lock::{BreakOutcome, HistoryEvent, ReleaseOutcome, RenewOutcome};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// With the right token the lock is free at once, and the history has the user and the reason.
#[rule]
async fn a_broken_lock_is_free(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let lock = turno.lock("r").owner("a").user("1").description("d");
    let old = acquired(lock).await;
    let reason = "it's stuck; see ticket \"7\"";
    assert_eq!(
        other
            .lock("r")
            .user("admin")
            .force_break(old.token(), reason)
            .await
            .unwrap(),
        BreakOutcome::Broken
    );
    let new = take(&other, "r", "b").await;
    assert!(new.token() > old.token());
    assert_eq!(old.renew().await.unwrap(), RenewOutcome::Lost);
    assert_eq!(owners(&turno, "r").await, ["b"]);
    let entry = history(&turno, "r")
        .await
        .into_iter()
        .find(|entry| entry.event == HistoryEvent::Broken)
        .unwrap();
    assert_eq!(
        (
            entry.token.unwrap(),
            entry.owner.as_deref(),
            entry.actor.as_deref()
        ),
        (old.token(), Some("a"), Some("admin"))
    );
    assert_eq!(
        (entry.reason.as_deref(), entry.attribution.user.as_deref()),
        (Some(reason), Some("1"))
    );
    assert_eq!(old.release().await.unwrap(), ReleaseOutcome::Lost);
    assert_eq!(count(&turno, "r", HistoryEvent::Late).await, 2);
}

/// A break ends all holds of a reentrant lease.
#[rule]
async fn a_break_ends_all_holds(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (first, _second) = (take(&turno, "r", "a").await, take(&turno, "r", "a").await);
    assert_eq!(
        turno
            .lock("r")
            .force_break(first.token(), "stuck")
            .await
            .unwrap(),
        BreakOutcome::Broken
    );
    take(&turno, "r", "b").await.detach();
}

/// With any other token nothing happens.
#[rule]
async fn a_break_names_the_holders_token(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let old = take(&turno, "r", "a").await;
    let stale = old.token();
    old.release().await.unwrap();
    for token in [stale, Token(stale.0 + 1), Token(0)] {
        assert_eq!(
            turno.lock("r").force_break(token, "why").await.unwrap(),
            BreakOutcome::NotHeld
        );
    }
    let held = take(&turno, "r", "b").await;
    for token in [stale, Token(held.token().0 + 1), Token(0)] {
        assert_eq!(
            turno.lock("r").force_break(token, "why").await.unwrap(),
            BreakOutcome::NotHeld
        );
    }
    assert_eq!(
        turno
            .lock("unknown")
            .force_break(held.token(), "why")
            .await
            .unwrap(),
        BreakOutcome::NotHeld
    );
    let shared = acquired(turno.lock("s").shared()).await;
    assert_eq!(
        turno
            .lock("s")
            .force_break(Token(shared.token().0 + 1), "why")
            .await
            .unwrap(),
        BreakOutcome::NotHeld
    );
    assert_eq!(owners(&turno, "r").await, ["b"]);
    assert_eq!(count(&turno, "r", HistoryEvent::Broken).await, 0);
}

/// A break of one shared holder does not affect the others.
#[rule]
async fn one_sharer_is_broken(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let lock = |owner: &str| turno.lock("r").owner(owner).permits(2);
    let (a, b) = (
        acquired(lock("a").user("1")).await,
        acquired(lock("b")).await,
    );
    assert_eq!(
        turno
            .lock("r")
            .user("admin")
            .force_break(a.token(), "stuck")
            .await
            .unwrap(),
        BreakOutcome::Broken
    );
    assert_eq!(owners(&turno, "r").await, ["b"]);
    acquired(lock("c")).await.detach();
    let entry = history(&turno, "r").await.remove(0);
    assert_eq!(
        (
            entry.event,
            entry.actor.as_deref(),
            entry.attribution.user.as_deref()
        ),
        (HistoryEvent::Broken, Some("admin"), Some("1"))
    );
    assert_eq!(a.release().await.unwrap(), ReleaseOutcome::Lost);
    assert!(matches!(
        b.renew().await.unwrap(),
        RenewOutcome::Renewed { .. }
    ));
}

/// A broken lock is free at once, also before the end of its `min_hold`.
#[rule]
async fn a_break_ends_the_min_hold(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let resource = format!("r/{shared}");
        let lock = turno.lock(&resource).ttl(secs(600)).min_hold(secs(600));
        let held = acquired(if shared { lock.shared() } else { lock })
            .await
            .detach();
        assert_eq!(
            turno
                .lock(&resource)
                .force_break(held.token, "stuck")
                .await
                .unwrap(),
            BreakOutcome::Broken
        );
        take(&turno, &resource, "b").await.detach();
    }
}

/// A break of one shared holder does not end the `min_hold` of another.
#[rule]
async fn a_break_keeps_the_others_min_hold(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let lock = |owner: &str| turno.lock("r").owner(owner).shared().ttl(secs(600));
    let resting = acquired(lock("a").min_hold(secs(600))).await;
    let broken = acquired(lock("b")).await.detach();
    assert_eq!(
        turno
            .lock("r")
            .force_break(broken.token, "stuck")
            .await
            .unwrap(),
        BreakOutcome::Broken
    );
    resting.release().await.unwrap();
    refused(turno.lock("r")).await;
}
