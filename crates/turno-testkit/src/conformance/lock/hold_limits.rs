//! `min_hold` and `max_hold`.

use turno::lock::RenewOutcome;

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A released lock stays unavailable until its `min_hold` has passed, for all callers and in all modes.
#[rule]
async fn a_min_hold_outlasts_the_release(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for shared in [false, true] {
        let resource = &format!("r/{shared}");
        let lock = turno
            .lock(resource)
            .owner("a")
            .user("1")
            .ttl(secs(600))
            .min_hold(secs(300));
        let lease = acquired(if shared { lock.shared() } else { lock }).await;
        lease.release().await.unwrap();
        let rest = refused(other.lock(resource).owner("b")).await;
        assert!(
            rest.remaining > secs(250) && rest.remaining <= secs(300),
            "{rest:?}"
        );
        refused(other.lock(resource).owner("a")).await;
        refused(other.lock(resource).owner("b").shared()).await;
        assert!(
            other
                .locks([resource, "another"])
                .acquire()
                .await
                .unwrap()
                .is_busy()
        );
        assert_eq!(owners(&turno, resource).await, [""; 0]);
        test_store.age(resource, secs(301)).await;
        take(&other, resource, "b").await.release().await.unwrap();
    }
}

/// A later hold without `min_hold` is not affected by an earlier one's.
#[rule]
async fn a_min_hold_ends_with_its_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let resource = &format!("r/{shared}");
        let lock = turno.lock(resource).ttl(secs(600)).min_hold(secs(300));
        acquired(if shared { lock.shared() } else { lock })
            .await
            .release()
            .await
            .unwrap();
        test_store.age(resource, secs(301)).await;
        let lock = turno.lock(resource);
        acquired(if shared { lock.shared() } else { lock })
            .await
            .release()
            .await
            .unwrap();
        take(&turno, resource, "b").await.release().await.unwrap();
    }
}

/// A lease ends at its `max_hold`, however often it is renewed or re-entered.
#[rule]
async fn a_max_hold_caps_every_renewal(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let resource = &format!("r/{shared}");
        let ask = || {
            let lock = turno
                .lock(resource)
                .owner("a")
                .ttl(secs(60))
                .max_hold(secs(90));
            if shared { lock.shared() } else { lock }
        };
        let lease = acquired(ask()).await;
        let cap = lease.grant().acquired_at + secs(90);
        let RenewOutcome::Renewed { expires_at, .. } = lease.renew_for(secs(600)).await.unwrap()
        else {
            panic!("lost")
        };
        assert!(near(expires_at, cap), "{expires_at} for {cap}");
        let again = acquired(ask().ttl(secs(600))).await;
        assert!(
            near(again.expires_at(), cap),
            "{} for {cap}",
            again.expires_at()
        );
        // After its `max_hold`, the lease is lost.
        test_store.expire(resource).await;
        assert_eq!(lease.renew().await.unwrap(), RenewOutcome::Lost);
        take(&turno, resource, "b").await.release().await.unwrap();
        lease.detach();
        again.detach();
    }
}

/// A `max_hold` below the TTL is the length of the lease.
#[rule]
async fn a_max_hold_may_be_below_the_ttl(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let lock = turno
            .lock(format!("r/{shared}"))
            .ttl(secs(60))
            .max_hold(secs(10));
        let lease = acquired(if shared { lock.shared() } else { lock }).await;
        assert!(lease.grant().remaining <= secs(10), "{:?}", lease.grant());
        let RenewOutcome::Renewed { remaining, .. } = lease.renew().await.unwrap() else {
            panic!("lost")
        };
        assert!(remaining <= secs(10), "{remaining:?}");
    }
}

/// Compares with a tolerance, because stored times come from separate clock readings.
fn near(a: jiff::Timestamp, b: jiff::Timestamp) -> bool {
    a.duration_since(b).abs() < jiff::SignedDuration::from_millis(50)
}
