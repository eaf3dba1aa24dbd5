//! The runner: work under a lock that is renewed, and always released.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use turno::lock::{BreakOutcome, HistoryEvent, RunError};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Short TTL. It is renewed three times as often, so that a busy test machine does not lose the lease.
const SHORT: Duration = Duration::from_millis(2500);

/// Sets a flag on drop.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The work runs under the lock, its result is returned, and the lock is free at once.
#[rule]
async fn a_run_releases_on_success(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let answer = turno
        .lock("r")
        .run(async |lease| {
            refused(turno.lock("r")).await;
            Ok::<_, Infallible>(lease.token())
        })
        .await
        .unwrap();
    assert_eq!(
        events(&turno, "r").await,
        [(HistoryEvent::Released, answer)]
    );
    take(&turno, "r", "b").await.detach();
    turno
        .with_lock("another", async |_| Ok::<_, Infallible>(()))
        .await
        .unwrap();
}

/// The work's own error is returned, and the lock is free.
#[rule]
async fn a_run_releases_on_error(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let error = turno
        .lock("r")
        .run(async |_| Err::<(), _>("no money"))
        .await
        .unwrap_err();
    assert!(matches!(error, RunError::Work("no money")), "{error:?}");
    take(&turno, "r", "b").await.detach();
}

/// A panic is propagated, and the lock is released.
#[rule]
async fn a_run_releases_on_panic(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let lock = turno.lock("r").ttl(secs(600));
    let task = tokio::spawn(
        lock.run(async |_| -> Result<(), Infallible> { panic!("as the rule wants it") }),
    );
    assert!(task.await.unwrap_err().is_panic());
    until_free(&turno, "r").await;
}

/// A run that is cancelled releases the lock.
#[rule]
async fn a_run_releases_on_cancellation(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (begun, beginning) = oneshot::channel();
    let lock = turno.lock("r").ttl(secs(600));
    let task = tokio::spawn(lock.run(async |_| {
        begun.send(()).unwrap();
        std::future::pending::<Result<(), Infallible>>().await
    }));
    beginning.await.unwrap();
    assert_eq!(owners(&turno, "r").await.len(), 1);
    task.abort();
    until_free(&turno, "r").await;
}

/// Work under a busy lock is not started.
#[rule]
async fn a_run_tells_busy(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let _held = acquired(turno.lock("r").user("1")).await;
    let error = turno
        .lock("r")
        .run(async |_| -> Result<(), Infallible> { panic!("begun") })
        .await
        .unwrap_err();
    assert_eq!(
        error
            .busy()
            .unwrap()
            .holder
            .as_ref()
            .unwrap()
            .user
            .as_deref(),
        Some("1")
    );
    let error = turno
        .lock("")
        .run(async |_| Ok::<_, Infallible>(()))
        .await
        .unwrap_err();
    assert!(matches!(error, RunError::Store(error) if error.field() == Some("resource")));
}

/// Work whose lease is broken by an operator is notified, then stopped, and the result says so.
#[rule]
async fn a_run_stops_when_its_lease_is_lost(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let dropped = Arc::new(AtomicBool::new(false));
    let (begun, beginning) = oneshot::channel();
    let lock = turno.lock("r").ttl(SHORT);
    let work = Dropped(dropped.clone());
    let task = tokio::spawn(lock.run(async move |lease| {
        let _work = work;
        begun.send(lease.id()).unwrap();
        lease.ending().await;
        std::future::pending::<Result<(), Infallible>>().await
    }));
    let id = beginning.await.unwrap();
    assert_eq!(
        other
            .lock("r")
            .force_break(id.token, "by hand")
            .await
            .unwrap(),
        BreakOutcome::Broken
    );
    let error = timeout(TIMEOUT, task)
        .await
        .expect("it is never stopped")
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(error, RunError::Lost(ref lost) if *lost == id),
        "{error:?}"
    );
    assert!(dropped.load(Ordering::SeqCst), "the work was stopped");
    // A late call of the run may still have the row, and an acquire that does not wait is then told that the lock is busy.
    let free = other.lock("r").owner("b").wait(TIMEOUT);
    acquired(free).await.detach();
}

/// The lease of long work is renewed, and no other owner gets the lock.
#[rule]
async fn a_run_renews_long_work(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let done = turno
        .lock("r")
        .ttl(SHORT)
        .run(async |lease| {
            let end = lease.grant().expires_at;
            crate::eventually_async(TIMEOUT, "a renewal past the first end", async || {
                refused(other.lock("r")).await;
                (lease.expires_at() > end + SHORT).then_some(())
            })
            .await;
            Ok::<_, Infallible>(lease.token())
        })
        .await
        .unwrap();
    assert_eq!(events(&turno, "r").await, [(HistoryEvent::Released, done)]);
}

/// Work under several locks: they are renewed together, the work is stopped when any is lost, and they are released together.
#[rule]
async fn a_run_under_several(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let all = || turno.locks(["a", "b"]).ttl(SHORT);
    let tokens = all()
        .run(async |leases| {
            refused(other.lock("b")).await;
            Ok::<_, Infallible>(leases.leases().len())
        })
        .await
        .unwrap();
    assert_eq!(tokens, 2);
    for resource in ["a", "b"] {
        take(&other, resource, "x").await.release().await.unwrap();
    }
    let error = all()
        .run(async |_| Err::<(), _>("no money"))
        .await
        .unwrap_err();
    assert!(matches!(error, RunError::Work("no money")));
    take(&other, "a", "x").await.release().await.unwrap();

    let (begun, beginning) = oneshot::channel();
    let task = tokio::spawn(all().run(async move |leases| {
        begun.send(leases.leases()[1].id()).unwrap();
        std::future::pending::<Result<(), Infallible>>().await
    }));
    let id = beginning.await.unwrap();
    other
        .lock("b")
        .force_break(id.token, "by hand")
        .await
        .unwrap();
    let error = timeout(TIMEOUT, task)
        .await
        .expect("it is never stopped")
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(error, RunError::Lost(ref lost) if *lost == id),
        "{error:?}"
    );
    until_free(&other, "a").await;
}

/// A `max_hold` below the TTL leaves most of that time to the work.
#[rule]
async fn a_short_max_hold_leaves_its_work_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    turno
        .lock("r")
        .ttl(Duration::from_secs(60))
        .max_hold(Duration::from_secs(4))
        .run(async |lease| {
            assert!(
                timeout(Duration::from_millis(100), lease.ending())
                    .await
                    .is_err(),
                "the work is stopped as soon as it has begun"
            );
            Ok::<_, Infallible>(())
        })
        .await
        .unwrap();
}
