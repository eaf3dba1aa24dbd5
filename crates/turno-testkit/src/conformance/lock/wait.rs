//! Waiting for a lock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use turno::Retry;
use turno::lock::BreakOutcome;
use turno::store::LockLeave;

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A waiter gets the lock when its holder, on another machine, releases it.
#[rule]
async fn a_release_grants_a_waiter(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for shared in [false, true] {
        let resource = format!("r/{shared}");
        let held = take(&turno, &resource, "a").await;
        let lock = other.lock(&resource).owner("b").wait(TIMEOUT);
        let waiter = tokio::spawn(if shared { lock.shared() } else { lock }.acquire());
        until_waiting(&turno, &resource, 1).await;
        let token = held.token();
        held.release().await.unwrap();
        let lease = mine(timeout(TIMEOUT, waiter).await.unwrap().unwrap().unwrap());
        assert!(lease.token() > token);
        until_waiting(&turno, &resource, 0).await;
    }
}

/// A waiter gets the lock when the holder's lease expires, without a notification.
#[rule]
async fn an_expiry_grants_a_waiter(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    acquired(turno.lock("r").ttl(Duration::from_millis(300)))
        .await
        .detach();
    let asked = Instant::now();
    acquired(other.lock("r").wait(TIMEOUT)).await.detach();
    assert!(asked.elapsed() < secs(10), "{:?}", asked.elapsed());
}

/// After the timeout, the outcome is busy, with the holder, and no waiter registration is left.
#[rule]
async fn a_wait_ends_as_busy(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let _held = acquired(turno.lock("r").user("1")).await;
    let asked = Instant::now();
    let busy = refused(turno.lock("r").wait(Duration::from_millis(150))).await;
    assert!(asked.elapsed() >= Duration::from_millis(150));
    assert_eq!(busy.holder.unwrap().user.as_deref(), Some("1"));
    until_waiting(&turno, "r", 0).await;
}

/// A wait of zero is a single attempt.
#[rule]
async fn a_wait_of_zero_is_a_look(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let _held = take(&turno, "r", "a").await;
    let retry = Retry::new(1000, secs(1));
    let look = turno.lock("r").retry(retry).wait(Duration::ZERO).acquire();
    busy(timeout(TIMEOUT, look).await.expect("it waits").unwrap());
}

/// A cancelled waiter is unregistered.
#[rule]
async fn a_cancelled_waiter_leaves_the_line(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let held = take(&turno, "r", "a").await;
    let waiter = tokio::spawn(turno.lock("r").owner("b").wait(TIMEOUT).fifo().acquire());
    until_waiting(&turno, "r", 1).await;
    waiter.abort();
    until_waiting(&turno, "r", 0).await;
    held.release().await.unwrap();
    // At once, or as soon as the last request of the cancelled waiter is undone: neither its registration (10 s) nor an unused
    // lease (30 s) may block.
    let soon = turno.lock("r").owner("c").wait(secs(5));
    acquired(soon).await.detach();
}

/// A break of a lock wakes its waiters.
#[rule]
async fn a_break_wakes_a_waiter(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let held = take(&turno, "r", "a").await.detach();
    let waiter = tokio::spawn(other.lock("r").wait(TIMEOUT).acquire());
    until_waiting(&turno, "r", 1).await;
    assert_eq!(
        turno
            .lock("r")
            .force_break(held.token, "stuck")
            .await
            .unwrap(),
        BreakOutcome::Broken
    );
    mine(timeout(TIMEOUT, waiter).await.unwrap().unwrap().unwrap()).detach();
}

/// The number of attempts is limited, with a pause in between; the last outcome is returned.
#[rule]
async fn retries_are_counted(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let held = take(&turno, "r", "a").await;
    let retry = Retry::new(3, Duration::from_millis(40));
    let asked = Instant::now();
    refused(turno.lock("r").retry(retry)).await;
    assert!(asked.elapsed() >= Duration::from_millis(80));
    let retry = Retry::new(1000, Duration::from_millis(5));
    let trying = tokio::spawn(turno.lock("r").retry(retry).acquire());
    held.release().await.unwrap();
    mine(timeout(TIMEOUT, trying).await.unwrap().unwrap().unwrap()).detach();
    let settings = turno::Turno::builder()
        .retry(retry)
        .connect(test_store.url())
        .await
        .unwrap();
    let asked = Instant::now();
    refused(settings.lock("r")).await;
    assert!(asked.elapsed() >= Duration::from_millis(80));
}

/// Waiters in order get the lock first in, first out, on any machine.
#[rule]
async fn a_line_is_served_in_order(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    let held = take(&machines[0], "r", "holder").await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = tokio::task::JoinSet::new();
    for n in 0..5 {
        let (lock, served) = (
            machines[n % 2]
                .lock("r")
                .owner(n.to_string())
                .wait(TIMEOUT)
                .fifo(),
            served.clone(),
        );
        waiters.spawn(async move {
            let lease = acquired(lock).await;
            served.lock().unwrap().push(n);
            lease.release().await.unwrap();
        });
        until_waiting(&machines[0], "r", n as u64 + 1).await;
    }
    held.release().await.unwrap();
    timeout(TIMEOUT, waiters.join_all())
        .await
        .expect("all are served");
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4]);
}

/// An acquire without order does not overtake, with any options; the first waiter gets the lock.
#[rule]
async fn a_newcomer_does_not_overtake(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    for shared in [false, true] {
        let resource = &format!("r/{shared}");
        let lock = turno.lock(resource).owner("a");
        let held = acquired(if shared { lock.shared() } else { lock }).await;
        stand_in_line(&turno, resource, "first").await;
        stand_in_line(&turno, resource, "second").await;
        held.release().await.unwrap();
        let free = refused(other.lock(resource).owner("new")).await;
        assert_eq!(
            (free.holder, free.remaining),
            (None, Duration::ZERO),
            "it is free"
        );
        refused(other.lock(resource).owner("new").shared()).await;
        refused(other.lock(resource).owner("second")).await;
        assert!(
            other
                .locks([resource, "another"])
                .acquire()
                .await
                .unwrap()
                .is_busy()
        );
        take(&other, resource, "first").await.detach();
    }
}

/// A dead waiter does not block those after it, and is last when it returns.
#[rule]
async fn a_dead_waiter_loses_its_place(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let held = take(&turno, "r", "a").await;
    for owner in ["dead", "second", "third"] {
        stand_in_line(&turno, "r", owner).await;
    }
    held.release().await.unwrap();
    refused(turno.lock("r").owner("second")).await;
    test_store.kill_waiter("r", "dead").await;
    refused(turno.lock("r").owner("third")).await;
    stand_in_line(&turno, "r", "dead").await;
    refused(turno.lock("r").owner("dead")).await;
    for owner in ["second", "third", "dead"] {
        let lease = take(&turno, "r", owner).await;
        turno
            .store()
            .lock_leave(&LockLeave {
                resource: "r".into(),
                owner: owner.into(),
            })
            .await
            .unwrap();
        lease.release().await.unwrap();
    }
}

/// Dead waiters block no other caller.
#[rule]
async fn waiters_that_ended_block_no_other(test_store: &TestStore) {
    let turno = test_store.turno().await;
    take(&turno, "r", "a").await.release().await.unwrap();
    stand_in_line(&turno, "r", "dead").await;
    refused(turno.lock("r").owner("b")).await;
    test_store.kill_waiter("r", "dead").await;
    take(&turno, "r", "b").await.release().await.unwrap();
    acquired(turno.lock("r").owner("b").shared())
        .await
        .release()
        .await
        .unwrap();
    turno
        .locks(["r"])
        .acquire()
        .await
        .unwrap()
        .acquired()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// A repeated registration keeps the place.
#[rule]
async fn a_waiter_keeps_its_place(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let held = take(&turno, "r", "a").await;
    for owner in ["first", "second", "first"] {
        stand_in_line(&turno, "r", owner).await;
    }
    held.release().await.unwrap();
    refused(turno.lock("r").owner("second")).await;
    take(&turno, "r", "first").await.detach();
}

/// A waiter in line that has died delays the next one until its own time is over, and no longer because of a release.
#[rule]
async fn a_release_gives_a_dead_waiter_no_more_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let held = take(&turno, "r", "a").await;
    for owner in ["dead", "next"] {
        stand_in_line(&turno, "r", owner).await;
    }
    test_store
        .run("update turno.lock_waiter set alive_until = {now} + {us:1000000} where owner = 'dead'")
        .await;
    held.release().await.unwrap();
    // After a release, those in line have ten seconds.
    let next = acquired(turno.lock("r").owner("next").wait(secs(8)).fifo()).await;
    next.release().await.unwrap();
}

/// A reentrant acquire of the holder does not wait for registered waiters.
#[rule]
async fn a_holder_enters_again_past_the_line(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for shared in [false, true] {
        let resource = format!("r/{shared}");
        let ask = || {
            if shared {
                turno.lock(&resource).shared()
            } else {
                turno.lock(&resource)
            }
            .owner("a")
        };
        let first = acquired(ask()).await;
        stand_in_line(&turno, &resource, "b").await;
        let again = ask().wait(TIMEOUT).fifo().acquire();
        let second = mine(
            timeout(secs(10), again)
                .await
                .expect("it waits for itself")
                .unwrap(),
        );
        assert_eq!((second.grant().holds, second.token()), (2, first.token()));
    }
}

/// Many waiters on two machines all get the lock, one at a time.
#[rule]
async fn every_waiter_gets_its_turn(test_store: &TestStore) {
    let machines = [test_store.turno().await, test_store.turno().await];
    let inside = Arc::new(Mutex::new(()));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..12 {
        let lock = machines[n % 2].lock("r").wait(TIMEOUT * 2);
        let (lock, inside) = (if n % 3 == 0 { lock.fifo() } else { lock }, inside.clone());
        tasks.spawn(async move {
            for _ in 0..4 {
                let lease =
                    acquired(lock.clone().owner(format!("{n}-{}", fastrand::u64(..)))).await;
                drop(inside.try_lock().expect("not alone"));
                lease.release().await.unwrap();
            }
        });
    }
    timeout(TIMEOUT * 2, tasks.join_all())
        .await
        .expect("all get their turn");
    until_waiting(&machines[0], "r", 0).await;
}
