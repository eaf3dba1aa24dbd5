//! Tokens only grow: across releases, machines, purges, restores and clocks.

use turno::lock::{ReleaseOutcome, RenewOutcome};
use turno::{Token, Turno};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Tokens grow over a thousand leases, two machines and a reopening.
#[rule]
async fn tokens_only_grow(test_store: &TestStore) {
    let mut last = Token(0);
    for _ in 0..2 {
        let machines = [test_store.turno().await, test_store.turno().await];
        for n in 0..500 {
            let lease = take(&machines[n % 2], "r", "a").await;
            assert!(lease.token() > last, "{} after {last}", lease.token());
            last = lease.token();
            assert_eq!(
                lease.release().await.unwrap(),
                ReleaseOutcome::Released { holds: 0 }
            );
        }
        machines[0].close().await;
        machines[1].close().await;
    }
}

/// A resource that was purged returns with a token above its old one, even if the clock is behind it.
#[rule]
async fn a_purged_resource_comes_back_higher(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ahead = Token(turno::clock::machine().as_microsecond() + 365 * 24 * 60 * 60 * 1_000_000);
    for shared in [false, true] {
        for name in ["a", "b"] {
            let resource = format!("{name}/{shared}");
            take(&turno, &resource, "x").await.release().await.unwrap();
            test_store.set_token(&resource, ahead).await;
            test_store.age(&resource, secs(2 * 24 * 60 * 60)).await;
        }
        assert_eq!(turno.sweep(&Default::default()).await.unwrap().purged, 2);
        assert_eq!(test_store.rows().await, 0);
        let lock = |resource: String| {
            if shared {
                turno.lock(resource).shared()
            } else {
                turno.lock(resource)
            }
        };
        let back = acquired(lock(format!("a/{shared}"))).await;
        assert!(
            back.token() > ahead,
            "{} is not above {ahead}",
            back.token()
        );
        assert!(
            matches!(back.renew().await.unwrap(), RenewOutcome::Renewed { .. }),
            "the raised token is the stored one"
        );
        back.release().await.unwrap();
        let other = acquired(lock(format!("never/{shared}"))).await;
        assert!(other.token() > ahead, "the floor is the same for all");
        other.release().await.unwrap();
        for resource in [format!("a/{shared}"), format!("never/{shared}")] {
            test_store.age(&resource, secs(2 * 24 * 60 * 60)).await;
        }
        turno.sweep(&Default::default()).await.unwrap();
    }
}

/// With a clock behind the last token, new tokens are still greater.
#[rule]
async fn a_clock_that_is_behind_still_counts_up(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let ahead = Token(turno::clock::machine().as_microsecond() + 365 * 24 * 60 * 60 * 1_000_000);
    take(&turno, "r", "a").await.release().await.unwrap();
    test_store.set_token("r", ahead).await;
    let exclusive = take(&turno, "r", "a").await;
    assert_eq!(exclusive.token(), Token(ahead.0 + 1));
    exclusive.release().await.unwrap();
    let shared = acquired(turno.lock("r").shared()).await;
    let second = acquired(turno.lock("r").shared()).await;
    assert_eq!(
        (shared.token(), second.token()),
        (Token(ahead.0 + 2), Token(ahead.0 + 3))
    );
}

/// Acquires and releases two locks as a set, and returns their tokens.
async fn grant_both(turno: &Turno) -> Vec<Token> {
    let both = turno.locks(["old", "in a set"]).acquire().await.unwrap();
    let both = both.acquired().unwrap();
    let tokens = both.leases().iter().map(|lease| lease.token()).collect();
    both.release().await.unwrap();
    tokens
}

/// The same for callers of the SQL functions, which have no program between them and the store.
#[rule(postgres)]
async fn a_restored_store_goes_on_above_for_sql(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let lock =
        "select (turno.lock_acquire('old', owner => gen_random_uuid()::text, ttl => '1 ms')).token";
    let set = "select max(token) from turno.lock_acquire_all(array['b', 'c'], ttl => '1 ms')";
    let begin = "select split_part((turno.once_begin('k', lease => '1 ms', unknown => 'rerun')).claim, '@', 2)::bigint";
    let all = [lock, set, begin];
    let tokens = async || {
        let mut tokens = Vec::new();
        for sql in all {
            // The last lease is of one millisecond.
            let token = crate::eventually_async(TIMEOUT, "a token", async || {
                let client = test_store.postgres_connection().await;
                let token: Option<i64> = client.query_one(sql, &[]).await.unwrap().get(0);
                token
            });
            tokens.push(token.await);
        }
        tokens
    };
    tokens().await;
    let backup = test_store.backup().await;
    let mut after = Vec::new();
    for _ in 0..5 {
        after.extend(tokens().await);
    }
    turno.close().await;
    test_store.restore(&backup).await;
    let last = after.into_iter().max();
    for (token, sql) in tokens().await.into_iter().zip(all) {
        assert!(Some(token) > last, "{sql} went back");
    }
}

/// A store restored from a backup grants greater tokens than those granted after the backup.
#[rule]
async fn a_restored_store_goes_on_above(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let grant = async |turno: &Turno, resource: &str, shared: bool| {
        let lock = turno.lock(resource);
        let lease = acquired(if shared { lock.shared() } else { lock }).await;
        let token = lease.token();
        lease.release().await.unwrap();
        token
    };
    grant(&turno, "old", false).await;
    grant(&turno, "shared", true).await;
    let backup = test_store.backup().await;
    let mut after = Vec::new();
    for _ in 0..20 {
        after.push(grant(&turno, "old", false).await);
        after.push(grant(&turno, "new", false).await);
        after.push(grant(&turno, "shared", true).await);
        after.extend(grant_both(&turno).await);
    }
    let last = after.into_iter().max().unwrap();
    turno.close().await;
    test_store.restore(&backup).await;
    let turno = test_store.turno().await;
    for token in grant_both(&turno).await {
        assert!(token > last, "a set went back");
    }
    for (resource, shared) in [("old", false), ("new", false), ("shared", true)] {
        assert!(
            grant(&turno, resource, shared).await > last,
            "{resource} went back"
        );
    }
}
