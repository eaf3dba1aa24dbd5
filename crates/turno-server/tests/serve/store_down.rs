//! A store that is unavailable, and available again.

use http::StatusCode;
use serde_json::json;
use turno::Turno;
use turno::access::{AccessNew, Role};
use turno_server::Options;
use turno_testkit::{PostgresServer, eventually_async};

use crate::common::{LONG, Running, TestResponse};

/// Checks for a temporary problem that reveals nothing about the store itself.
#[track_caller]
fn passing(response: &TestResponse, port: u16) {
    assert_eq!(
        response.status,
        StatusCode::SERVICE_UNAVAILABLE,
        "{response:?}"
    );
    assert!(response.headers.contains_key("retry-after"), "{response:?}");
    let text = String::from_utf8_lossy(&response.body);
    for secret in ["postgres", "127.0.0.1", &port.to_string()] {
        assert!(!text.contains(secret), "{text}");
    }
}

async fn lock(server: &Running, shown: Option<&str>) -> TestResponse {
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
async fn requests_fail_while_the_store_is_down_and_then_recover() {
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
            let response = lock(server, shown).await;
            passing(&response, postgres.port());
            response.problem(503, "unavailable");
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
        let response = eventually_async(LONG, "an answer", async || {
            let response = lock(server, Some(text.as_str())).await;
            response.status.is_success().then_some(response)
        })
        .await;
        assert_eq!(response.json()["resource"], "r");
        // The token was created while the server could not read the store: it is required now.
        eventually_async(LONG, "a closed server", async || {
            let response = server.get("/v1/locks").await;
            (response.status == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
    }
    open.end().await;
    closed.end().await;
    beside.end().await;
}
