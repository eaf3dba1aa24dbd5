//! A network that fails while a handler works: the handler is notified before another worker can have its item.
//!
//! Only PostgreSQL has a network.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use turno::inbox::Job;
use turno::{Turno, clock};
use turno_testkit::faults::client;
use turno_testkit::{PostgresServer, TcpProxy};

const LEASE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
enum Fault {
    Cut,
    BlackHole,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_network_ends_the_claim_in_time() {
    notified_in_time(Fault::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_ends_the_claim_in_time() {
    notified_in_time(Fault::BlackHole).await;
}

async fn notified_in_time(fault: Fault) {
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
        // Dropped when the claim is lost.
        std::future::pending::<Result<(), std::convert::Infallible>>()
    };
    let stop = CancellationToken::new();
    let worker = turno.inbox("work").worker(handler).lease(LEASE);
    let worker = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
    let lost = received.recv().await.unwrap();
    match fault {
        Fault::Cut => proxy.cut().await,
        Fault::BlackHole => proxy.black_hole(),
    }
    lost.cancelled().await;
    let notified = clock::machine();
    // The observer and the database are on the same machine, and have the same clock.
    let observer = client(&url).await;
    let until = observer
        .query_one("select until from turno.inbox_claim", &[])
        .await
        .unwrap();
    let until: Timestamp = until.get(0);
    assert!(notified < until, "{notified}, and it lasted until {until}");
    proxy.restore().await.unwrap();
    stop.cancel();
    worker.await.unwrap().unwrap();
}
