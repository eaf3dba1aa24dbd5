//! A network that fails while a handler works: the handler is notified before another worker can have its item.
//!
//! Only PostgreSQL has a network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use turno::inbox::Job;
use turno::{Turno, clock};
use turno_testkit::faults::client;
use turno_testkit::{PostgresServer, TcpProxy, eventually_async};

use crate::LONG;

const LEASE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
enum Fault {
    Cut,
    BlackHole,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_network_ends_the_claim_in_time() {
    let (ended, until) = work(Fault::Cut, Work::EndsWhenLost).await;
    assert!(ended < until, "{ended}, and it lasted until {until}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_ends_the_claim_in_time() {
    let (ended, until) = work(Fault::BlackHole, Work::EndsWhenLost).await;
    assert!(ended < until, "{ended}, and it lasted until {until}");
}

/// The control: work that ignores the loss of its claim continues after the claim's end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_ignores_the_loss_goes_on_too_long() {
    let (ended, until) = work(Fault::BlackHole, Work::IgnoresLoss).await;
    assert!(ended > until, "{ended}, and it lasted until {until}");
}

/// Work in a task of its own, which is not dropped with the handler.
#[derive(Clone, Copy)]
enum Work {
    EndsWhenLost,
    IgnoresLoss,
}

impl Work {
    /// Notes the time of each of its steps.
    async fn run(self, lost: CancellationToken, last: Arc<Mutex<Timestamp>>) {
        loop {
            *last.lock().unwrap() = clock::machine();
            if matches!(self, Work::EndsWhenLost) && lost.is_cancelled() {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
    }
}

/// Returns the last step of the work of a handler after a fault, and the end of its claim. If the work continues, it is a step after
/// the end. The observer and the database are on the same machine, and have the same clock.
async fn work(fault: Fault, work: Work) -> (Timestamp, Timestamp) {
    let server = PostgresServer::shared();
    let url = tokio::task::spawn_blocking(|| server.create_database())
        .await
        .unwrap();
    let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
        .await
        .unwrap();
    let turno = Turno::connect(&proxy.url_for(&url)).await.unwrap();
    turno.inbox("work").push(&1).await.unwrap();
    let (send, mut received) = mpsc::unbounded_channel();
    let handler = move |job: Job<u32>| {
        let _ = send.send(job.lost());
        // Dropped when the claim is lost, unlike the work.
        std::future::pending::<Result<(), std::convert::Infallible>>()
    };
    let stop = CancellationToken::new();
    let worker = turno.inbox("work").worker(handler).lease(LEASE);
    let worker = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
    let lost = received.recv().await.unwrap();
    let last = Arc::new(Mutex::new(clock::machine()));
    let work = tokio::spawn(work.run(lost, last.clone()));
    match fault {
        Fault::Cut => proxy.cut().await,
        Fault::BlackHole => proxy.black_hole(),
    }
    let observer = client(&url).await;
    let until = eventually_async(LONG, "the end of the claim", async || {
        let ended = "select until from turno.inbox_claim where until <= clock_timestamp()";
        let ended = observer.query_opt(ended, &[]).await.unwrap();
        ended.map(|row| row.get::<_, Timestamp>(0))
    })
    .await;
    let last = eventually_async(LONG, "the end of the work, or another step", async || {
        let is_finished = work.is_finished();
        let last = *last.lock().unwrap();
        (is_finished || last > until).then_some(last)
    })
    .await;
    work.abort();
    proxy.restore().await.unwrap();
    stop.cancel();
    worker.await.unwrap().unwrap();
    (last, until)
}
