//! Stale tokens: reported, recorded once, never applied.

use turno::Token;
use turno::lock::{HistoryEvent, ReleaseOutcome, RenewOutcome};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A wrong, an old and a future token are lost, on a held, a free and an unknown resource, and change nothing.
#[rule]
async fn a_wrong_token_is_lost(test_store: &TestStore) {
    let turno = test_store.turno().await;
    take(&turno, "free", "a").await.release().await.unwrap();
    let held = take(&turno, "held", "a").await;
    let shared = acquired(turno.lock("shared").owner("a").shared()).await;
    for resource in ["unknown", "free", "held", "shared"] {
        for token in [
            0,
            1,
            -1,
            held.token().0 - 1,
            shared.token().0 + 1,
            i64::MAX,
            i64::MIN,
        ] {
            let token = Token(token);
            if [held.token(), shared.token()].contains(&token) {
                continue;
            }
            assert_eq!(
                turno
                    .lock(resource)
                    .ttl(secs(60))
                    .renew(token)
                    .await
                    .unwrap(),
                RenewOutcome::Lost
            );
            assert_eq!(
                turno.lock(resource).release(token).await.unwrap(),
                ReleaseOutcome::Lost
            );
        }
        assert_eq!(
            count(&turno, resource, HistoryEvent::Late).await,
            0,
            "nothing is recorded for a token never granted"
        );
    }
    let now = turno.lock("held").status().await.unwrap().holders.remove(0);
    assert_eq!(
        (now.token, now.expires_at, now.holds),
        (held.token(), held.expires_at(), 1)
    );
    assert_eq!(owners(&turno, "shared").await, ["a"]);
    assert_eq!(test_store.rows().await, 3);
}

/// A token of one resource is invalid for another.
#[rule]
async fn a_token_is_of_one_resource(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (a, _b) = (take(&turno, "a", "x").await, take(&turno, "b", "x").await);
    assert_eq!(
        turno.lock("b").release(a.token()).await.unwrap(),
        ReleaseOutcome::Lost
    );
    assert_eq!(owners(&turno, "b").await, ["x"]);
}

/// Renewals and releases of a stale holder are recorded as late: once per lease and kind.
#[rule]
async fn a_zombie_is_recorded_once(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let lock = turno.lock("r").owner("zombie").user("1");
    let old = acquired(lock).await.detach();
    test_store.expire("r").await;
    let new = take(&other, "r", "b").await;
    for _ in 0..3 {
        assert_eq!(
            turno
                .lock("r")
                .ttl(secs(60))
                .renew(old.token)
                .await
                .unwrap(),
            RenewOutcome::Lost
        );
        assert_eq!(
            turno.lock("r").release(old.token).await.unwrap(),
            ReleaseOutcome::Lost
        );
    }
    let late: Vec<_> = history(&turno, "r")
        .await
        .into_iter()
        .filter(|entry| entry.event == HistoryEvent::Late)
        .collect();
    assert_eq!(late.len(), 2, "{late:?}");
    assert_eq!(
        late.iter()
            .filter_map(|entry| entry.reason.as_deref())
            .collect::<Vec<_>>(),
        ["release", "renew"]
    );
    for entry in &late {
        assert_eq!(
            (entry.token.unwrap(), entry.owner.as_deref()),
            (old.token, Some("zombie"))
        );
        assert_eq!(entry.attribution.user.as_deref(), Some("1"));
    }
    assert_eq!(owners(&turno, "r").await, ["b"]);
    assert_eq!(
        new.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
}

/// A stale holder of the next lease is recorded separately.
#[rule]
async fn each_lease_has_its_own_zombie(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for n in 1..=3 {
        let old = take(&turno, "r", "z").await.detach();
        test_store.expire("r").await;
        take(&turno, "r", "b").await.release().await.unwrap();
        for _ in 0..2 {
            assert_eq!(
                turno.lock("r").release(old.token).await.unwrap(),
                ReleaseOutcome::Lost
            );
        }
        assert_eq!(count(&turno, "r", HistoryEvent::Late).await, n);
    }
}

/// This also holds for a lease that was once renewed late.
#[rule]
async fn a_zombie_is_recorded_once_after_a_late_renewal(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let resource = format!("r/{shared}");
        let lock = turno.lock(&resource).owner("z");
        let old = acquired(if shared { lock.shared() } else { lock }).await;
        test_store.expire(&resource).await;
        assert!(matches!(
            old.renew().await.unwrap(),
            RenewOutcome::Renewed { .. }
        ));
        let old = old.detach();
        test_store.expire(&resource).await;
        let _new = take(&turno, &resource, "b").await;
        for _ in 0..3 {
            assert_eq!(
                turno
                    .lock(&resource)
                    .ttl(secs(9))
                    .renew(old.token)
                    .await
                    .unwrap(),
                RenewOutcome::Lost
            );
        }
        assert_eq!(
            count(&turno, &resource, HistoryEvent::Late).await,
            1,
            "{:?}",
            events(&turno, &resource).await
        );
        assert_eq!(count(&turno, &resource, HistoryEvent::RenewedLate).await, 1);
    }
}

/// A stale shared holder is recorded once, too.
#[rule]
async fn a_shared_zombie_is_recorded_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let old = acquired(turno.lock("r").owner("z").shared()).await.detach();
    let _other = acquired(turno.lock("r").owner("live").shared().ttl(secs(600))).await;
    test_store.expire_hold("r", old.token).await;
    let _third = acquired(turno.lock("r").owner("third").shared()).await;
    for _ in 0..3 {
        assert_eq!(
            turno.lock("r").release(old.token).await.unwrap(),
            ReleaseOutcome::Lost
        );
    }
    assert_eq!(count(&turno, "r", HistoryEvent::Late).await, 1);
    assert_eq!(owners(&turno, "r").await, ["live", "third"]);
}

/// A release after the expiry, before a takeover, is a release, and its result says so.
#[rule]
async fn a_release_after_the_expiry_says_so(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let old = take(&turno, "r", "a").await.detach();
    test_store.expire("r").await;
    assert_eq!(
        turno.lock("r").release(old.token).await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
    let entry = history(&turno, "r").await.remove(0);
    assert_eq!(
        (entry.event, entry.reason.as_deref()),
        (HistoryEvent::Released, Some("after its expiry"))
    );
}
