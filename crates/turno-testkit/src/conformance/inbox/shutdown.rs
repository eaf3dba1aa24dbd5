//! Lifetime of a worker's claims: heartbeats, loss, shutdown.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use turno::inbox::{ItemState, Job};

use crate::conformance::inbox::fixtures::*;
use crate::conformance::inbox::start::start;
use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::{TestStore, rule};

/// Lease that is long enough for a busy test machine, and short enough to be exceeded.
const SHORT: Duration = Duration::from_millis(400);

/// Sets a flag on drop.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A handler that takes longer than several leases keeps its claim, and no other worker gets the item.
#[rule]
async fn a_slow_handler_keeps_its_claim(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["slow"]).await;
    let (mut gate, handler) = Gate::new();
    let running = start(inbox.worker(handler).lease(SHORT));
    gate.next().await;
    let end = turno::clock::machine() + SHORT * 5 / 2;
    crate::eventually_async(TIMEOUT, "several leases", async || {
        assert_eq!(take(&other.inbox("q"), 1).await, []);
        (turno::clock::machine() > end).then_some(())
    })
    .await;
    gate.open.add_permits(1);
    crate::eventually_async(TIMEOUT, "its completion", async || {
        (counts(&inbox).await[3] == 1).then_some(())
    })
    .await;
    let report = running.stop().await;
    assert_eq!((report.completed, report.lost), (1, 0));
}

/// A handler whose claim is lost is notified and stopped. The next worker that claims the item completes it.
#[rule]
async fn a_lost_claim_stops_its_handler(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["x"]).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicU32::new(0));
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let handler = {
        let (dropped, calls) = (dropped.clone(), calls.clone());
        move |job: Job<String>| {
            let first = calls.fetch_add(1, Ordering::SeqCst) == 0;
            let work = first.then(|| Dropped(dropped.clone()));
            let begun = begun.clone();
            async move {
                let _work = work;
                begun.send(job.lost()).unwrap();
                if first {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(())
            }
        }
    };
    let running = start(inbox.worker(handler).lease(SHORT));
    let lost = timeout(TIMEOUT, beginning.recv()).await.unwrap().unwrap();
    assert!(!lost.is_cancelled());
    assert_eq!(other.inbox("q").reset(Duration::ZERO).await.unwrap(), 1);
    let outcome = timeout(TIMEOUT, lost.cancelled()).await;
    outcome.expect("the loss is never reported");
    crate::eventually_async(TIMEOUT, "another attempt", async || {
        (counts(&inbox).await[3] == 1).then_some(())
    })
    .await;
    // The worker has noticed already; the handler's own task has yet to be stopped.
    crate::eventually_async(TIMEOUT, "the handler to be stopped", async || {
        dropped.load(Ordering::SeqCst).then_some(())
    })
    .await;
    let report = running.stop().await;
    assert_eq!((report.completed, report.lost), (1, 1));
}

/// A handler that reports its start, and waits until the test lets it continue.
struct Gate {
    open: Arc<Semaphore>,
    begun: mpsc::UnboundedReceiver<String>,
}

impl Gate {
    fn new() -> (
        Gate,
        impl Fn(Job<String>) -> Waiting + Send + Sync + 'static,
    ) {
        let open = Arc::new(Semaphore::new(0));
        let (sender, begun) = mpsc::unbounded_channel();
        let gate = Gate {
            open: open.clone(),
            begun,
        };
        let handler = move |job: Job<String>| -> Waiting {
            let (open, sender) = (open.clone(), sender.clone());
            Box::pin(async move {
                // The receiver is closed when the rule has ended.
                let _ = sender.send(job.payload);
                open.acquire().await.unwrap().forget();
                Ok(())
            })
        };
        (gate, handler)
    }

    async fn next(&mut self) -> String {
        let begun = timeout(TIMEOUT, self.begun.recv()).await;
        begun.expect("a handler begins").unwrap()
    }
}

type Waiting = std::pin::Pin<Box<dyn Future<Output = Result<(), Infallible>> + Send>>;

/// A shutdown immediately gives back fetched items that were not begun, and lets the others finish.
#[rule]
async fn a_shutdown_gives_back_what_was_not_begun(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let inbox = turno.inbox("q");
    push(&inbox, &["1", "2", "3", "4", "5", "6"]).await;
    let (mut gate, handler) = Gate::new();
    let worker = inbox.worker(handler).concurrency(1).prefetch(5);
    let running = start(worker.lease(LONG));
    assert_eq!(gate.next().await, "1");
    crate::eventually_async(TIMEOUT, "a full hand", async || {
        (counts(&inbox).await == [0, 0, 6, 0, 0]).then_some(())
    })
    .await;
    let stopping = running.begin_stop();
    // The promise is about time: other workers need to wait neither for the handler nor for the claims to expire.
    let second = Duration::from_secs(1);
    let theirs = other.inbox("q");
    let back = crate::eventually_async(second, "five items given back", async || {
        (counts(&theirs).await == [5, 0, 1, 0, 0]).then_some(())
    });
    back.await;
    let claimed = take(&theirs, 10).await;
    assert_eq!(claimed.len(), 5);
    assert!(claimed.iter().all(|item| item.attempt == 1), "not counted");
    gate.open.add_permits(1);
    let report = stopping.ended().await;
    assert_eq!((report.completed, report.given_back), (1, 5));
    assert_eq!(counts(&inbox).await, [0, 0, 5, 1, 0]);
}

/// A handler that does not end within the grace period is dropped, and its attempt has failed.
#[rule]
async fn grace_comes_to_an_end(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    push(&inbox, &["x"]).await;
    let (mut gate, handler) = Gate::new();
    let worker = inbox.worker(handler).grace(Duration::from_millis(50));
    let running = start(worker.lease(LONG));
    gate.next().await;
    let report = running.stop().await;
    assert_eq!((report.completed, report.failed), (0, 1));
    assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 0]);
    let shown = only(&inbox, ItemState::Pending).await;
    assert_eq!((shown.attempts, shown.abandoned), (1, 0));
    let error = &shown.errors[0].error;
    assert!(error.contains("shut down"), "{error}");
    assert_eq!(take_one(&inbox).await.attempt, 2, "claimable at once");
}

/// The shutdown of an idle worker returns at once, also if it is signalled before the worker begins.
#[rule]
async fn an_idle_worker_ends_at_once(test_store: &TestStore) {
    let inbox = test_store.turno().await.inbox("q");
    let (_gate, handler) = Gate::new();
    let report = start(inbox.worker(handler)).stop().await;
    assert_eq!(report, Default::default());
    push(&inbox, &["x"]).await;
    let (_gate, handler) = Gate::new();
    let done = inbox.worker(handler).run(std::future::ready(()));
    timeout(TIMEOUT, done).await.unwrap().unwrap();
    assert_eq!(counts(&inbox).await, [1, 0, 0, 0, 0]);
}
