//! Shutdown of a server.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpStream;
use turno::Turno;
use turno_server::Options;
use turno_testkit::{PostgresServer, Sql as _, eventually_async};

use crate::common::{LONG, Running, both};
use crate::disconnect::{stand_still, until_one_stands};
use crate::raw::{Raw, get, post};

/// Longer than any test waits.
const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn waiting_requests_end_and_take_nothing() {
    for server in both().await {
        let lease = server
            .post("/v1/locks", json!({"resource": "r", "ttl": "10m"}))
            .await
            .expect(201);
        let mut waiting = Vec::new();
        for n in 0..10 {
            let lock = json!({"resource": "r", "owner": n.to_string(), "wait": "60s"}).to_string();
            waiting.push(Raw::saying(server.address, &post("/v1/locks", &lock)).await);
            let claim = json!({"worker": n.to_string(), "wait": "60s"}).to_string();
            waiting.push(Raw::saying(server.address, &post("/v1/inbox/q/claim", &claim)).await);
        }
        let mut idle = Raw::saying(server.address, &get("/healthz")).await;
        idle.head().await;
        eventually_async(LONG, "ten who wait", async || {
            let status = server.turno.lock("r").status().await.unwrap();
            (status.waiters == 10).then_some(())
        })
        .await;
        let turno = server.turno.clone();
        server.end().await;
        for response in join_all(waiting.iter_mut().map(Raw::until_closed)).await {
            // A connection that the server had not read yet is closed without a response: nothing was claimed for it either.
            assert!(
                response.is_empty() || response.starts_with("HTTP/1.1 503"),
                "{response}"
            );
            assert!(
                response.is_empty() || response.contains("shutting_down"),
                "{response}"
            );
            assert!(
                response.is_empty() || response.contains("retry-after: 1"),
                "{response}"
            );
        }
        idle.until_closed().await;
        let status = turno.lock("r").status().await.unwrap();
        assert_eq!(json!(status.holders[0].token), lease["token"]);
    }
}

#[tokio::test]
async fn half_a_request_does_not_keep_a_server_from_ending() {
    let server = Running::start_with(Options {
        head_timeout: NEVER,
        drain: NEVER,
        ..Options::default()
    })
    .await;
    let half = "GET /v1/locks HTTP/1.1\r\nhost: loc";
    let mut slow = Raw::saying(server.address, half).await;
    let mut silent = Raw::connect(server.address).await;
    // It was accepted.
    server.get("/healthz").await.expect(200);
    server.end().await;
    slow.until_closed().await;
    silent.until_closed().await;
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_off() {
    let server = Running::start_with(Options {
        body_timeout: NEVER,
        drain: Duration::from_millis(100),
        ..Options::default()
    })
    .await;
    let whole = post("/v1/locks", &json!({"resource": "r"}).to_string());
    let mut slow = Raw::saying(server.address, &whole[..whole.len() - 1]).await;
    server.get("/healthz").await.expect(200);
    server.end().await;
    slow.until_closed().await;
}

/// The store is slow. A request that arrived before the shutdown gets its response, although new connections are refused.
#[tokio::test]
async fn what_is_in_flight_is_answered_first() {
    let url = PostgresServer::shared().create_database();
    let turno = Turno::connect(&url).await.unwrap();
    let server = Running::on(turno.clone(), Options::default()).await;
    server.get("/healthz").await.expect(200);
    let standstill = stand_still(&url).await;
    let push = server.post("/v1/inbox/mail", json!({"items": [{"payload": 1}]}));
    let (response, ()) = tokio::join!(push, async {
        until_one_stands(&standstill).await;
        server.stop.cancel();
        eventually_async(LONG, "connections to be rejected", async || {
            let connected = TcpStream::connect(server.address).await;
            connected.is_err().then_some(())
        })
        .await;
        standstill.run("rollback").await;
    });
    assert_eq!(response.expect(201)["ids"].as_array().unwrap().len(), 1);
    server.end().await;
    assert_eq!(turno.inbox("mail").stats().await.unwrap().pending, 1);
}

/// The control: without a drain time, the client gets no response.
#[tokio::test]
async fn without_a_drain_what_is_in_flight_is_cut_off() {
    let url = PostgresServer::shared().create_database();
    let turno = Turno::connect(&url).await.unwrap();
    let options = Options {
        drain: Duration::ZERO,
        ..Options::default()
    };
    let server = Running::on(turno, options).await;
    server.get("/healthz").await.expect(200);
    let standstill = stand_still(&url).await;
    let push = json!({"items": [{"payload": 1}]}).to_string();
    let mut client = Raw::saying(server.address, &post("/v1/inbox/mail", &push)).await;
    until_one_stands(&standstill).await;
    server.end().await;
    assert_eq!(client.until_closed().await, "");
    standstill.run("rollback").await;
}
