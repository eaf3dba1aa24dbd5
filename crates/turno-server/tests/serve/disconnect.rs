//! Whoever waits may be cut off: by its own end, or by the server's. What was taken for it meanwhile is not lost.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls};
use turno::store::InboxClaim;
use turno::{Batching, Turno};
use turno_server::serve::Options;
use turno_testkit::{PostgresServer, eventually_async};
use uuid::Uuid;

use crate::common::{LONG, Running, both};

/// Sends a request, and leaves the answer to itself.
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
        server.until_somebody_waits().await;
        drop(client);
        server.until_nobody_waits().await;

        let items = json!({"items": [{"payload": "hello"}]});
        server.post("/v1/inbox/mail", items).await.expect(201);
        let told = server
            .post("/v1/inbox/mail/claim", json!({"worker": "next"}))
            .await
            .expect(200);
        assert_eq!(told["items"][0]["payload"], "hello");
        assert_eq!(told["items"][0]["attempt"], 1);
        server.end().await;
    }
}

/// Somebody who keeps all pushes and claims of a store standing still.
pub async fn stand_still(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "begin; lock table turno.inbox_item in access exclusive mode";
    client.batch_execute(lock).await.unwrap();
    client
}

/// Until one of them stands.
pub async fn until_one_stands(client: &Client) {
    let stands = "select from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and not l.granted";
    eventually_async(LONG, "one that stands still", async || {
        client.query(stands, &[]).await.unwrap().pop()
    })
    .await;
}

/// A claim is in the store's hands when the server shuts down: its client is told that nothing was taken, and that is so,
/// although the store does take the item when it gets to it.
#[tokio::test]
async fn what_is_claimed_while_the_server_ends_goes_back() {
    let url = PostgresServer::shared().create_database();
    let turno = Turno::connect(&url).await.unwrap();
    turno.inbox("mail").push("hello").await.unwrap();
    let server = Running::on(turno.clone(), Options::default()).await;

    let standstill = stand_still(&url).await;
    let lease = json!({"worker": "w", "lease": "1h", "wait": "1m"});
    let (told, ()) = tokio::join!(server.post("/v1/inbox/mail/claim", lease), async {
        until_one_stands(&standstill).await;
        server.stop.cancel();
    });
    let problem = told.problem(503, "shutting_down");
    assert_eq!(told.headers["retry-after"], "1");
    assert_eq!(problem["retry_after_ms"], 1000);
    standstill.batch_execute("rollback").await.unwrap();

    let next = turno.inbox("mail").claim().wait(LONG).take().await.unwrap();
    assert_eq!(
        next[0].attempt, 1,
        "an hour too early, if it had not gone back"
    );
    server.end().await;
}

/// The control: whoever gives up a claim of the bare store half-way leaves it to its lease.
#[tokio::test]
async fn what_the_bare_store_claims_for_nobody_stays_claimed() {
    let url = PostgresServer::shared().create_database();
    let turno = Turno::connect(&url).await.unwrap();
    turno.inbox("mail").push("hello").await.unwrap();

    let standstill = stand_still(&url).await;
    let ask = InboxClaim {
        queue: "mail".into(),
        worker: "w".into(),
        limit: 1,
        lease: Duration::from_secs(3600),
        request: Uuid::now_v7(),
        batching: Batching::Alone,
    };
    let store = turno.store().clone();
    let claim = tokio::spawn(async move { store.inbox_claim(&ask).await });
    until_one_stands(&standstill).await;
    claim.abort();
    assert!(claim.await.unwrap_err().is_cancelled());
    standstill.batch_execute("rollback").await.unwrap();

    eventually_async(LONG, "an item that nobody has", async || {
        let stats = turno.inbox("mail").stats().await.unwrap();
        (stats.processing == 1).then_some(())
    })
    .await;
    let next = turno.inbox("mail").claim().take().await.unwrap();
    assert!(next.is_empty());
}

#[tokio::test]
async fn whoever_waits_for_an_answer_is_sent_away_when_the_server_ends() {
    for server in both().await {
        let begin = json!({"key": "pago/77"});
        server.post("/v1/once", begin).await.expect(201);
        let waiting = json!({"key": "pago/77", "wait": "1m"});
        let (told, ()) = tokio::join!(server.post("/v1/once", waiting), async {
            server.until_somebody_waits().await;
            server.stop.cancel();
        });
        told.problem(503, "shutting_down");
        server.end().await;
    }
}
