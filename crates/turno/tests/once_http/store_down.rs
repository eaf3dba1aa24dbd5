//! A store that does not answer.

use std::time::Duration;

use axum::extract::Request;
use turno::once::OnceState;
use turno::once::http::{Fails, Policy};
use turno_testkit::PostgresServer;

use crate::kit::{Held, Site, paying, problem, run_number};

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
    let told = site.send(paying("77")).await;
    assert_eq!(told.problem(), problem(503, "store_unavailable"));
    assert!(told.headers.contains_key("retry-after"));
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

/// The work is done, and its client shall know; whoever repeats it is told that nobody knows.
#[tokio::test]
async fn an_answer_that_could_not_be_stored_is_given_once() {
    let server = PostgresServer::start().unwrap();
    let held = Held::new();
    let holding = held.clone();
    let policy = Policy::new("pagos").lease(Duration::from_secs(1));
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
    first.await.unwrap().assert_fresh("run 1");
    assert_eq!(site.counts().store_down, 1);
    server.restart().unwrap();
    site.await_state(OnceState::Unknown).await;
    let told = site.send(paying("77")).await;
    assert_eq!(told.problem(), problem(409, "unknown"));
    assert_eq!(site.runs(), 1);
}
