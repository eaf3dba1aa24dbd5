//! Several resources, all or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use turno::lock::{HistoryEvent, ReleaseOutcome};
use turno::store::{LockAcquireAll, LockAllOutcome};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// All are granted, ordered by name, each with its own lease.
#[rule]
async fn all_are_taken_in_order(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let all = turno
        .locks(["b", "a", "ñ", "B"])
        .each(|lock| lock.owner("x"))
        .acquire()
        .await
        .unwrap()
        .acquired()
        .unwrap();
    assert_eq!(
        all.leases()
            .iter()
            .map(|lease| lease.resource())
            .collect::<Vec<_>>(),
        ["B", "a", "b", "ñ"]
    );
    for lease in all.leases() {
        assert_eq!((lease.grant().holds, lease.owner()), (1, "x"));
        refused(other.lock(lease.resource())).await;
    }
    assert_eq!(
        all.release().await.unwrap(),
        ReleaseOutcome::Released { holds: 0 }
    );
    for resource in ["a", "b", "B", "ñ"] {
        take(&other, resource, "y").await.release().await.unwrap();
    }
}

/// If one is busy, none is acquired, and the outcome names the busy one.
#[rule]
async fn one_busy_means_none(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let _held = acquired(turno.lock("b").user("1")).await;
    let answer = other.locks(["a", "b", "c"]).acquire().await.unwrap();
    let turno::lock::AcquireAll::Busy(busy) = answer else {
        panic!("acquired")
    };
    assert_eq!(
        (busy.resource.as_str(), busy.holder.unwrap().user.as_deref()),
        ("b", Some("1"))
    );
    for resource in ["a", "c"] {
        assert_eq!(owners(&turno, resource).await, [""; 0]);
        take(&turno, resource, "y").await.release().await.unwrap();
    }
}

/// A shared holder makes it busy, too.
#[rule]
async fn one_shared_means_none(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let _held = acquired(turno.lock("b").shared()).await;
    assert!(turno.locks(["a", "b"]).acquire().await.unwrap().is_busy());
    assert_eq!(owners(&turno, "a").await, [""; 0]);
}

/// Expired ones are taken over, and recorded.
#[rule]
async fn expired_ones_are_taken_over_together(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let old = take(&turno, "a", "dead").await.detach();
    test_store.expire("a").await;
    let all = turno
        .locks(["a", "b"])
        .acquire()
        .await
        .unwrap()
        .acquired()
        .unwrap();
    assert!(all.leases()[0].token() > old.token);
    assert_eq!(
        events(&turno, "a").await,
        [(HistoryEvent::TakenOver, old.token)]
    );
}

/// A name that occurs twice is one resource, also at the store interface.
#[rule]
async fn a_name_given_twice_is_one(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let all = turno
        .locks(["a", "b", "a"])
        .acquire()
        .await
        .unwrap()
        .acquired()
        .unwrap();
    assert_eq!(all.leases().len(), 2);
    assert!(all.leases().iter().all(|lease| lease.grant().holds == 1));
    all.release().await.unwrap();
    let twice = LockAcquireAll {
        resources: vec!["b".into(), "a".into(), "b".into()],
        each: ask("", "x"),
    };
    let LockAllOutcome::Acquired(grants) = turno.store().lock_acquire_all(&twice).await.unwrap()
    else {
        panic!("busy")
    };
    assert_eq!(
        grants
            .iter()
            .map(|grant| (grant.resource.as_str(), grant.holds))
            .collect::<Vec<_>>(),
        [("a", 1), ("b", 1)]
    );
}

/// If the owner already holds one of them, that acquire is reentrant.
#[rule]
async fn an_owner_of_one_enters_it_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let one = take(&turno, "b", "x").await;
    let all = turno
        .locks(["a", "b"])
        .each(|lock| lock.owner("x"))
        .acquire()
        .await
        .unwrap()
        .acquired()
        .unwrap();
    assert_eq!(
        all.leases()
            .iter()
            .map(|lease| lease.grant().holds)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(all.leases()[1].token(), one.token());
    all.release().await.unwrap();
    assert_eq!(owners(&turno, "b").await, ["x"]);
    assert_eq!(owners(&turno, "a").await, [""; 0]);
}

/// Two sets in opposite order, many times, cause no deadlock and are never held at the same time.
#[rule]
async fn opposite_orders_never_deadlock(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    let inside = Arc::new(AtomicI64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (turno, inside) = (machines[n % 2].clone(), inside.clone());
        let names = if n % 4 < 2 {
            ["a", "b", "c"]
        } else {
            ["c", "b", "a"]
        };
        tasks.spawn(async move {
            for _ in 0..10 {
                let all = turno
                    .locks(names)
                    .wait(TIMEOUT * 2)
                    .acquire()
                    .await
                    .unwrap()
                    .acquired()
                    .unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "not alone");
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                assert_eq!(
                    all.release().await.unwrap(),
                    ReleaseOutcome::Released { holds: 0 }
                );
            }
        });
    }
    tokio::time::timeout(TIMEOUT * 2, tasks.join_all())
        .await
        .expect("they wait for each other");
}
