//! A network that fails while work runs under a lock: the work is notified, and stopped in time.
//!
//! Only PostgreSQL has a network.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio_postgres::Client;
use turno::lock::{Lease, RunError};
use turno::{Turno, clock};
use turno_testkit::conformance::acquired;
use turno_testkit::faults::client;
use turno_testkit::{PostgresServer, TcpProxy, eventually_async};

use crate::LONG;

const RESOURCE: &str = "PRESTAMO/123";
const TTL: Duration = Duration::from_secs(3);

#[derive(Clone, Copy)]
enum Fault {
    /// Connections are closed, and new ones refused.
    Cut,
    /// Connections stay open, and no data is forwarded.
    BlackHole,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_network_stops_the_work_in_time() {
    stopped_in_time(Fault::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_stops_the_work_in_time() {
    stopped_in_time(Fault::BlackHole).await;
}

struct Network {
    proxy: TcpProxy,
    turno: Turno,
    /// Connected without the proxy.
    observer: Client,
}

impl Network {
    async fn open() -> Self {
        let server = PostgresServer::shared();
        let url = tokio::task::spawn_blocking(|| server.create_database())
            .await
            .unwrap();
        let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
            .await
            .unwrap();
        let turno = Turno::connect(&proxy.url_for(&url)).await.unwrap();
        Self {
            proxy,
            turno,
            observer: client(&url).await,
        }
    }

    async fn fail(&self, fault: Fault) {
        match fault {
            Fault::Cut => self.proxy.cut().await,
            Fault::BlackHole => self.proxy.black_hole(),
        }
    }

    /// Returns when the lease ends according to the database, and whether it has ended.
    async fn expiry(&self) -> (Timestamp, bool) {
        let sql = "select expires_at, expires_at <= clock_timestamp() from turno.lock where resource = $1";
        let row = self.observer.query_one(sql, &[&RESOURCE]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

async fn stopped_in_time(fault: Fault) {
    let network = Network::open().await;
    let (began, begun) = oneshot::channel();
    let (notify, notified) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let lock = network.turno.lock(RESOURCE).ttl(TTL);
    let run = tokio::spawn(async move {
        let outcome = lock
            .run(async |lease| {
                let _end = Last(Some(end));
                began.send(()).unwrap();
                lease.ending().await;
                notify.send(clock::machine()).unwrap();
                // It ignores the notification, so it must be dropped.
                std::future::pending::<Result<Infallible, Infallible>>().await
            })
            .await;
        (outcome, Instant::now())
    });
    begun.await.unwrap();
    renewed_once(&network).await;
    network.fail(fault).await;

    // The observer and the database are on the same machine, and have the same clock.
    let notified = notified.await.unwrap();
    let (expires_at, _) = network.expiry().await;
    let (ended, ended_here) = ended.await.unwrap();
    assert!(
        notified <= ended && ended < expires_at,
        "notified {notified}, ended {ended}, expiry {expires_at}"
    );

    network.proxy.restore().await.unwrap();
    let (outcome, returned) = run.await.unwrap();
    assert!(matches!(outcome, Err(RunError::Lost(_))), "{outcome:?}");
    println!(
        "notified {} and stopped {} before the expiry; returned {:?} after it stopped",
        expires_at - notified,
        expires_at - ended,
        returned - ended_here,
    );

    let again = network.turno.lock(RESOURCE).ttl(TTL).wait(LONG);
    let token = again
        .run(async |lease| Ok::<_, Infallible>(lease.token()))
        .await
        .unwrap();
    assert!(token.0 > 0);
}

/// The client counts the lease from before it asked: on a slow network, it ends its work earlier, and never after the expiry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_shortens_the_lease_of_its_client() {
    const SLOW: Duration = Duration::from_millis(50);
    let network = Network::open().await;
    // The connections are made.
    drop(acquired(network.turno.lock("another")).await);
    network.proxy.delay(SLOW);
    // Each way is slow.
    let longest = TTL - SLOW * 2;
    let lease = acquired(network.turno.lock(RESOURCE).ttl(TTL)).await;
    assert!(lease.remaining() <= longest, "{:?}", lease.remaining());
    lease.renew().await.unwrap();
    assert!(lease.remaining() <= longest, "{:?}", lease.remaining());
    network.proxy.delay(Duration::ZERO);
}

/// Sends the time when the work was dropped.
struct Last(Option<oneshot::Sender<(Timestamp, Instant)>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            // The receiver is gone only if the test has failed already.
            let _ = end.send((clock::machine(), Instant::now()));
        }
    }
}

/// Waits for a renewal, so that the fault happens while the runner is active.
async fn renewed_once(network: &Network) {
    let (first, _) = network.expiry().await;
    eventually_async(LONG, "a renewal", async || {
        (network.expiry().await.0 > first).then_some(())
    })
    .await;
}

/// The control: work under a lease that is not renewed continues past its expiry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_beside_the_runner_goes_on_too_long() {
    let network = Network::open().await;
    let lock = network.turno.lock(RESOURCE).ttl(Duration::from_millis(500));
    let lease = acquired(lock).await;
    let steps = Arc::new(AtomicU64::new(0));
    let work = tokio::spawn(step_until_ending(lease, steps.clone()));
    network.fail(Fault::Cut).await;

    eventually_async(LONG, "the lease to expire", async || {
        network.expiry().await.1.then_some(())
    })
    .await;
    let then = steps.load(Ordering::SeqCst);
    eventually_async(LONG, "a step after the expiry", async || {
        (steps.load(Ordering::SeqCst) > then).then_some(())
    })
    .await;
    assert!(!work.is_finished());
    work.abort();
}

async fn step_until_ending(lease: Lease, steps: Arc<AtomicU64>) {
    let steps = async {
        loop {
            steps.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = lease.ending() => {}
        () = steps => {}
    }
}
