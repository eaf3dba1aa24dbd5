//! A store that is unavailable.

use std::time::Duration;

use axum::extract::Request;
use tokio::task::JoinHandle;
use turno::once::OnceState;
use turno::once::http::{Fails, Policy};
use turno_testkit::{PostgresServer, eventually_async};

use crate::LONG;
use crate::kit::{Held, Site, TestResponse, paying, problem, run_number};

async fn down(fails: Fails) -> (Site, PostgresServer) {
    let server = PostgresServer::start().unwrap();
    let policy = Policy::new("pagos").store_down(fails);
    let site = Site::on(&server.create_database(), policy, run_number).await;
    site.send(paying("77")).await.assert_fresh("run 1");
    server.stop().unwrap();
    (site, server)
}

#[tokio::test]
async fn closed_nothing_is_done() {
    let (site, server) = down(Fails::Closed).await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(503, "store_unavailable"));
    assert!(response.headers.contains_key("retry-after"));
    assert_eq!((site.runs(), site.counts().store_down), (1, 1));
    server.restart().unwrap();
    site.send(paying("77")).await.assert_replayed("run 1");
}

#[tokio::test]
async fn open_it_may_be_done_twice() {
    let (site, _server) = down(Fails::Open).await;
    site.send(paying("77")).await.assert_fresh("run 2");
    assert_eq!(site.counts().store_down, 1);
}

/// Starts a handler that returns only after the store was stopped.
async fn gone_meanwhile(policy: Policy) -> (Site, PostgresServer, JoinHandle<TestResponse>) {
    let server = PostgresServer::start().unwrap();
    let held = Held::new();
    let holding = held.clone();
    let site = Site::on(&server.create_database(), policy, move |run, _: Request| {
        let held = holding.clone();
        async move {
            held.hold().await;
            format!("run {run}")
        }
    })
    .await;
    let first = site.sending(paying("77"));
    held.begun().await;
    server.stop().unwrap();
    held.go();
    eventually_async(LONG, "an answer that is not stored", async || {
        (site.counts().store_down == 1).then_some(())
    })
    .await;
    (site, server, first)
}

/// A response is not sent before it is stored, however long that takes within its lease.
#[tokio::test]
async fn an_answer_is_sent_when_the_store_is_back() {
    let policy = Policy::new("pagos").lease(LONG);
    let (site, server, first) = gone_meanwhile(policy).await;
    assert!(!first.is_finished());
    server.restart().unwrap();
    first.await.unwrap().assert_fresh("run 1");
    site.send(paying("77")).await.assert_replayed("run 1");
    assert_eq!(site.runs(), 1);
}

/// A response that cannot be stored is not sent: its client learns that the work is done, and a repetition gets "unknown".
#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_not_sent() {
    let policy = Policy::new("pagos").lease(Duration::from_secs(1));
    let (site, server, first) = gone_meanwhile(policy).await;
    let response = first.await.unwrap();
    assert_eq!(response.problem(), problem(409, "answer_not_stored"));
    server.restart().unwrap();
    site.await_state(OnceState::Unknown).await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(409, "unknown"));
    assert_eq!(site.runs(), 1);
}

/// The control: a policy that is open while the store is down sends an unstored response immediately.
#[tokio::test]
async fn open_an_answer_that_is_not_stored_is_sent() {
    let policy = Policy::new("pagos").lease(LONG).store_down(Fails::Open);
    let (_site, _server, first) = gone_meanwhile(policy).await;
    first.await.unwrap().assert_fresh("run 1");
}
