//! An acquire of a busy lock writes nothing: no row, no row lock, no commit.

use turno::Turno;

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Tries all kinds of acquire, which must be busy, and checks that nothing was written.
async fn leaves_no_trace(
    test_store: &TestStore,
    turno: &Turno,
    resource: &str,
    asks: impl IntoIterator<Item = Ask>,
) {
    let watch = test_store.watch().await;
    let before = watch.look().await;
    for ask in asks {
        match ask {
            Ask::Exclusive => drop(refused(turno.lock(resource).owner("loser")).await),
            Ask::Shared => drop(refused(turno.lock(resource).owner("loser").shared()).await),
            Ask::Permits(n) => drop(refused(turno.lock(resource).owner("loser").permits(n)).await),
            Ask::Several => {
                // The free ones precede the busy one, so that a partial grant would have to be undone.
                let all = ["0-free", "1-new", resource];
                assert!(turno.locks(all).acquire().await.unwrap().is_busy());
            }
        }
        assert_eq!(
            watch.look().await,
            before,
            "a trace of the loser, who asked for {ask:?}"
        );
    }
    assert!(
        turno
            .lock("0-free")
            .status()
            .await
            .unwrap()
            .holders
            .is_empty()
    );
}

#[derive(Debug, Clone, Copy)]
enum Ask {
    Exclusive,
    Shared,
    Permits(u32),
    Several,
}

const ALL: [Ask; 4] = [Ask::Exclusive, Ask::Shared, Ask::Permits(3), Ask::Several];

async fn two(test_store: &TestStore) -> (Turno, Turno) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    take(&turno, "0-free", "x").await.release().await.unwrap();
    (turno, other)
}

/// Busy because of a live holder.
#[rule]
async fn losing_to_a_holder_writes_nothing(test_store: &TestStore) {
    let (turno, other) = two(test_store).await;
    let _lease = take(&turno, "r", "a").await;
    leaves_no_trace(test_store, &other, "r", ALL).await;
}

/// Busy because of a `min_hold` that outlasts the release.
#[rule]
async fn losing_to_a_rest_writes_nothing(test_store: &TestStore) {
    let (turno, other) = two(test_store).await;
    let lock = turno
        .lock("r")
        .owner("a")
        .ttl(secs(600))
        .min_hold(secs(600));
    acquired(lock).await.release().await.unwrap();
    leaves_no_trace(test_store, &other, "r", ALL).await;
}

/// Busy because of a shared holder's `min_hold` that outlasts the release.
#[rule]
async fn losing_to_a_shared_rest_writes_nothing(test_store: &TestStore) {
    let (turno, other) = two(test_store).await;
    let lock = turno
        .lock("r")
        .owner("a")
        .shared()
        .ttl(secs(600))
        .min_hold(secs(600));
    acquired(lock).await.release().await.unwrap();
    leaves_no_trace(test_store, &other, "r", ALL).await;
}

/// Busy because of waiters in order, with the lock free.
#[rule]
async fn losing_to_a_line_writes_nothing(test_store: &TestStore) {
    let (turno, other) = two(test_store).await;
    let lease = take(&turno, "r", "a").await;
    stand_in_line(&turno, "r", "first").await;
    lease.release().await.unwrap();
    leaves_no_trace(test_store, &other, "r", ALL).await;
}

/// Busy because of waiters in order, with the holder expired.
#[rule]
async fn losing_to_a_line_after_an_expiry_writes_nothing(test_store: &TestStore) {
    let (turno, other) = two(test_store).await;
    take(&turno, "r", "a").await.detach();
    stand_in_line(&turno, "r", "first").await;
    test_store.expire("r").await;
    leaves_no_trace(test_store, &other, "r", ALL).await;
}

/// Busy because all permits are held.
#[rule]
async fn losing_to_full_permits_writes_nothing(test_store: &TestStore) {
    let (turno, other) = two(test_store).await;
    for owner in ["a", "b"] {
        acquired(turno.lock("r").owner(owner).permits(2))
            .await
            .detach();
    }
    leaves_no_trace(
        test_store,
        &other,
        "r",
        [Ask::Exclusive, Ask::Permits(2), Ask::Several],
    )
    .await;
}

/// A repeated stale renewal or release does not change the holder's row.
#[rule]
async fn a_stale_renew_does_not_touch_the_row(test_store: &TestStore) {
    let (turno, other) = two(test_store).await;
    let stale = take(&turno, "r", "a").await.detach();
    test_store.expire("r").await;
    let _lease = take(&other, "r", "b").await;
    let renew = async || {
        turno
            .lock("r")
            .ttl(secs(30))
            .renew(stale.token)
            .await
            .unwrap()
    };
    // The first is recorded as late.
    assert_eq!(renew().await, turno::lock::RenewOutcome::Lost);
    let holder = other.lock("r").status().await.unwrap().holders.remove(0);
    let watch = test_store.watch().await;
    let before = watch.look().await;
    assert_eq!(renew().await, turno::lock::RenewOutcome::Lost);
    if !test_store.is_sqlite() {
        // A single writer commits even if nothing changed; there only the holder's row is compared.
        assert_eq!(watch.look().await, before);
    }
    let after = other.lock("r").status().await.unwrap().holders.remove(0);
    assert_eq!(
        (after.token, after.expires_at, after.holds),
        (holder.token, holder.expires_at, holder.holds)
    );
}
