//! Expiry of leases.

use turno::Token;
use turno::lock::{HistoryEvent, RenewOutcome};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// The next acquire takes over an expired lock with a greater token, and the history names the previous holder.
#[rule]
async fn an_expired_lock_is_taken_over(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let lock = turno
        .lock("r")
        .owner("a")
        .user("1")
        .service("s")
        .description("d");
    let old = acquired(lock).await.detach();
    test_store.expire("r").await;
    assert_eq!(
        owners(&turno, "r").await,
        [""; 0],
        "an expired holder is not shown"
    );
    let new = take(&other, "r", "b").await;
    assert!(new.token() > old.token);
    assert_eq!((new.grant().holds, new.grant().reentered), (1, false));
    let entry = history(&turno, "r").await.remove(0);
    assert_eq!(
        (entry.event, entry.token.unwrap(), entry.owner.as_deref()),
        (HistoryEvent::TakenOver, old.token, Some("a"))
    );
    let who = entry.attribution;
    assert_eq!(
        (
            who.user.as_deref(),
            who.service.as_deref(),
            who.description.as_deref()
        ),
        (Some("1"), Some("s"), Some("d"))
    );
    assert!(who.pid.is_some() && who.host.is_some());
    assert!(entry.acquired_at < entry.expires_at && entry.expires_at < Some(entry.at));
}

/// After the expiry of its own lease, the same owner gets a new lease.
#[rule]
async fn an_expired_owner_starts_anew(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let old = take(&turno, "r", "a").await.detach();
    test_store.expire("r").await;
    let new = take(&turno, "r", "a").await;
    assert!(new.token() > old.token);
    assert_eq!((new.grant().holds, new.grant().reentered), (1, false));
    assert_eq!(
        events(&turno, "r").await,
        [(HistoryEvent::TakenOver, old.token)]
    );
}

/// Exclusive and shared holders can take over from each other after an expiry.
#[rule]
async fn a_takeover_may_change_the_mode(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let first = take(&turno, "r", "a").await.detach();
    test_store.expire("r").await;
    let second = acquired(turno.lock("r").owner("b").shared()).await.detach();
    test_store.expire("r").await;
    let third = take(&turno, "r", "c").await;
    assert!(first.token < second.token && second.token < third.token());
    let ended: Vec<_> = events(&turno, "r")
        .await
        .into_iter()
        .map(|(_, token)| token)
        .collect();
    assert_eq!(ended, [second.token, first.token]);
    assert_eq!(owners(&turno, "r").await, ["c"]);
}

/// A renewal after the expiry, before a takeover, keeps the lease and is recorded.
#[rule]
async fn a_late_renewal_is_recorded(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let resource = format!("r/{shared}");
        let lock = turno.lock(&resource).owner("a").user("1");
        let lock = if shared { lock.shared() } else { lock };
        let lease = acquired(lock).await;
        test_store.expire(&resource).await;
        let RenewOutcome::Renewed { remaining, .. } = lease.renew().await.unwrap() else {
            panic!("lost")
        };
        assert!(remaining > secs(20));
        refused(turno.lock(&resource).owner("b")).await;
        assert_eq!(
            events(&turno, &resource).await,
            [(HistoryEvent::RenewedLate, lease.token())]
        );
        assert_eq!(
            history(&turno, &resource).await[0]
                .attribution
                .user
                .as_deref(),
            Some("1")
        );
        lease.release().await.unwrap();
    }
}

/// A renewal never revives a lease after a takeover, a sweep or a release, and inserts nothing.
#[rule]
async fn a_renewal_never_revives(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let renew = async |resource: &str, token| {
        turno
            .lock(resource)
            .ttl(secs(60))
            .renew(token)
            .await
            .unwrap()
    };

    let old = take(&turno, "taken", "a").await.detach();
    test_store.expire("taken").await;
    let new = take(&turno, "taken", "b").await;
    assert_eq!(renew("taken", old.token).await, RenewOutcome::Lost);
    assert_eq!(owners(&turno, "taken").await, ["b"]);
    new.release().await.unwrap();
    assert_eq!(renew("taken", old.token).await, RenewOutcome::Lost);

    let swept = take(&turno, "swept", "a").await.detach();
    test_store.expire("swept").await;
    turno.sweep(&Default::default()).await.unwrap();
    assert_eq!(renew("swept", swept.token).await, RenewOutcome::Lost);

    let released = take(&turno, "released", "a").await.detach();
    turno
        .lock("released")
        .release(released.token)
        .await
        .unwrap();
    assert_eq!(renew("released", released.token).await, RenewOutcome::Lost);

    let rows = test_store.rows().await;
    assert_eq!(renew("never", Token(1)).await, RenewOutcome::Lost);
    assert_eq!(test_store.rows().await, rows, "a renewal inserts nothing");
    for resource in ["taken", "swept", "released", "never"] {
        assert_eq!(owners(&turno, resource).await, [""; 0], "{resource}");
    }
}

/// A renewal for less than the remaining time changes nothing.
#[rule]
async fn a_renewal_never_shortens(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let lock = turno.lock(format!("r/{shared}")).ttl(secs(600));
        let lease = acquired(if shared { lock.shared() } else { lock }).await;
        let until = lease.expires_at();
        let RenewOutcome::Renewed {
            expires_at,
            remaining,
        } = lease.renew_for(secs(1)).await.unwrap()
        else {
            panic!("lost")
        };
        assert_eq!(expires_at, until);
        assert!(remaining > secs(500));
        let RenewOutcome::Renewed { expires_at, .. } = lease.renew_for(secs(900)).await.unwrap()
        else {
            panic!("lost")
        };
        assert!(expires_at > until);
    }
}
