//! A store that is unavailable, and available again.

use http::StatusCode;
use serde_json::json;
use turno::Turno;
use turno::access::{AccessNew, Role};
use turno_server::Options;
use turno_testkit::{PostgresServer, eventually_async};

use crate::common::{LONG, Running, Told};

/// Checks for a temporary problem that reveals nothing about the store itself.
#[track_caller]
fn passing(told: &Told, port: u16) {
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE, "{told:?}");
    assert!(told.headers.contains_key("retry-after"), "{told:?}");
    let text = String::from_utf8_lossy(&told.body);
    for secret in ["postgres", "127.0.0.1", &port.to_string()] {
        assert!(!text.contains(secret), "{text}");
    }
}

async fn lock(server: &Running, shown: Option<&str>) -> Told {
    let mut request = server
        .request("POST", "/v1/locks")
        .header("content-type", "application/json");
    if let Some(text) = shown {
        request = request.header("authorization", format!("Bearer {text}"));
    }
    let body = json!({"resource": "r", "owner": "a"}).to_string();
    server.send(request, body).await
}

#[tokio::test]
async fn while_the_store_is_down_nobody_is_let_in_and_all_recovers_by_itself() {
    let postgres = PostgresServer::start().unwrap();
    let url = postgres.create_database();
    let connect = async || Turno::connect(&url).await.unwrap();
    let open = Running::on(connect().await, Options::default()).await;
    open.get("/readyz").await.expect(200);
    open.get("/v1/locks").await.expect(200);

    let closed = Running::on(connect().await, Options::default()).await;
    // The server has started: it checks the store before that.
    closed.get("/healthz").await.expect(200);
    // The control: with an available store, all requests below succeed.
    let beside = Running::start().await;
    let new = AccessNew::new("a", Role::Operate);
    let (_, text) = closed.turno.access_create(new).await.unwrap();

    postgres.stop().unwrap();
    for server in [&open, &closed] {
        server.get("/healthz").await.expect(200);
        let ready = eventually_async(LONG, "a server that is not ready", async || {
            let ready = server.get("/readyz").await;
            (ready.status != StatusCode::OK).then_some(ready)
        })
        .await;
        passing(&ready, postgres.port());
        assert_eq!(ready.expect(503)["status"], "unavailable");
        // A token that is not in the cache, and none.
        for shown in [Some(text.as_str()), None] {
            let told = lock(server, shown).await;
            passing(&told, postgres.port());
            told.problem(503, "unavailable");
        }
    }

    beside.get("/readyz").await.expect(200);
    lock(&beside, None).await.expect(201);

    postgres.restart().unwrap();
    for server in [&open, &closed] {
        eventually_async(LONG, "a server that is ready again", async || {
            let ready = server.get("/readyz").await;
            (ready.status == StatusCode::OK).then_some(())
        })
        .await;
        let told = eventually_async(LONG, "an answer", async || {
            let told = lock(server, Some(text.as_str())).await;
            told.status.is_success().then_some(told)
        })
        .await;
        assert_eq!(told.json()["resource"], "r");
        // The token was created while the server could not read the store: it is required now.
        eventually_async(LONG, "a closed server", async || {
            let told = server.get("/v1/locks").await;
            (told.status == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
    }
    open.end().await;
    closed.end().await;
    beside.end().await;
}
