//! Waiting clients whose connection ends, by their own end or by the server's. What was granted meanwhile is not lost.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_postgres::Client;
use turno::store::InboxClaim;
use turno::{Batching, Turno};
use turno_server::Options;
use turno_testkit::{PostgresServer, Sql as _, TcpProxy, eventually_async, sql};
use uuid::Uuid;

use crate::common::{LONG, Running, both};

/// Sends a request without reading the response.
async fn ask(server: &Running, path: &str, body: &str) -> TcpStream {
    let mut client = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    client
}

#[tokio::test]
async fn a_worker_that_goes_away_while_it_waits_takes_nothing_with_it() {
    for server in both().await {
        let body = r#"{"worker": "gone", "wait": "1m", "lease": "1h"}"#;
        let client = ask(&server, "/v1/inbox/mail/claim", body).await;
        server.until_a_caller_waits().await;
        drop(client);
        server.until_no_caller_waits().await;

        let items = json!({"items": [{"payload": "hello"}]});
        server.post("/v1/inbox/mail", items).await.expect(201);
        let response = server
            .post("/v1/inbox/mail/claim", json!({"worker": "next"}))
            .await
            .expect(200);
        assert_eq!(response["items"][0]["payload"], "hello");
        assert_eq!(response["items"][0]["attempt"], 1);
        server.end().await;
    }
}

/// Opens a transaction that blocks all pushes and claims of a store.
pub async fn stand_still(url: &str) -> Client {
    let client = sql::client(url).await;
    let lock = "begin; lock table turno.inbox_item in access exclusive mode";
    client.run(lock).await;
    client
}

/// Waits until one of them is blocked.
pub async fn until_one_stands(client: &Client) {
    let stands = "select from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and not l.granted";
    eventually_async(LONG, "one that stands still", async || {
        client.query(stands, &[]).await.unwrap().pop()
    })
    .await;
}

/// A claim is in progress in the store when the server shuts down. Its client gets the response that nothing was claimed. That
/// is true, although the store does claim the item later: it is given back.
#[tokio::test]
async fn what_is_claimed_while_the_server_ends_goes_back() {
    let url = PostgresServer::shared().create_database();
    let turno = Turno::connect(&url).await.unwrap();
    turno.inbox("mail").push("hello").await.unwrap();
    let server = Running::on(turno.clone(), Options::default()).await;

    let standstill = stand_still(&url).await;
    let lease = json!({"worker": "w", "lease": "1h", "wait": "1m"});
    let (response, ()) = tokio::join!(server.post("/v1/inbox/mail/claim", lease), async {
        until_one_stands(&standstill).await;
        server.stop.cancel();
    });
    let problem = response.problem(503, "shutting_down");
    assert_eq!(response.headers["retry-after"], "1");
    assert_eq!(problem["retry_after_ms"], 1000);
    standstill.run("rollback").await;

    let next = turno.inbox("mail").claim().wait(LONG).take().await.unwrap();
    assert_eq!(
        next[0].attempt, 1,
        "an hour too early, if it had not gone back"
    );
    server.end().await;
}

/// The control: a claim of the bare store whose response is lost. Its call is cancelled after the commit, and the item stays
/// claimed until its lease expires.
#[tokio::test]
async fn a_claim_of_the_bare_store_stays_after_a_cancel() {
    let server = PostgresServer::shared();
    let url = server.create_database();
    let turno = Turno::connect(&url).await.unwrap();
    turno.inbox("mail").push("hello").await.unwrap();
    let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
        .await
        .unwrap();
    let caller = Turno::connect(&proxy.url_for(&url)).await.unwrap();
    let claim = |queue: &str| {
        let store = caller.store().clone();
        let claim = InboxClaim {
            queue: queue.into(),
            worker: "w".into(),
            limit: 1,
            lease: Duration::from_secs(3600),
            request: Uuid::now_v7(),
            batching: Batching::Alone,
        };
        tokio::spawn(async move { store.inbox_claim(&claim).await })
    };
    // Prepares the statement: what is blocked below is its execution.
    claim("empty").await.unwrap().unwrap();

    let standstill = stand_still(&url).await;
    let cancelled = claim("mail");
    until_one_stands(&standstill).await;
    proxy.black_hole();
    standstill.run("rollback").await;
    eventually_async(LONG, "the commit of the claim", async || {
        let stats = turno.inbox("mail").stats().await.unwrap();
        (stats.processing == 1).then_some(())
    })
    .await;
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());

    let next = turno.inbox("mail").claim().take().await.unwrap();
    assert!(next.is_empty());
}

#[tokio::test]
async fn requests_that_wait_for_an_answer_end_at_shutdown() {
    for server in both().await {
        let begin = json!({"key": "pago/77"});
        server.post("/v1/once", begin).await.expect(201);
        let waiting = json!({"key": "pago/77", "wait": "1m"});
        let (response, ()) = tokio::join!(server.post("/v1/once", waiting), async {
            server.until_a_caller_waits().await;
            server.stop.cancel();
        });
        response.problem(503, "shutting_down");
        server.end().await;
    }
}
