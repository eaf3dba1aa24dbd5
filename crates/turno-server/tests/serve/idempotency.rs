//! A response that is lost, and the request that is sent again.

use std::net::SocketAddr;

use serde_json::{Value, json};
use turno_testkit::TcpProxy;
use uuid::Uuid;

use crate::common::{Running, both};
use crate::raw::{Raw, post};

/// Whether a request has an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    Its,
    None,
}

/// Adds a request id to a body, which distinguishes a repetition from another request.
fn with(identity: Identity, field: &str, mut body: Value) -> Value {
    if identity == Identity::Its {
        body[field] = json!(Uuid::now_v7());
    }
    body
}

/// Returns status and body of a response, or `None` if it was lost.
async fn ask(address: SocketAddr, path: &str, body: &Value) -> Option<(u16, Value)> {
    let whole = post(path, &body.to_string()).replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let response = Raw::saying(address, &whole).await.until_closed().await;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Some((status, serde_json::from_str(body).unwrap()))
}

/// Sends a request twice, and loses the first response. Returns the second one.
async fn twice(server: &Running, path: &str, body: Value) -> (u16, Value) {
    let proxy = TcpProxy::start(server.address).await.unwrap();
    proxy.drop_next_answer();
    assert_eq!(ask(proxy.addr(), path, &body).await, None);
    ask(proxy.addr(), path, &body).await.expect("an answer")
}

/// Returns how often each was done: push, reentrant lock, claim, emit; and the result of a begin.
async fn effects(server: &Running, identity: Identity) -> [u64; 5] {
    let get = async |path: &str| server.get(path).await.expect(200);
    let push = with(identity, "request", json!({"items": [{"payload": 1}]}));
    twice(server, "/v1/inbox/pushed", push).await;
    let pushed = &get("/v1/inbox/pushed").await["pending"];

    let lock = json!({"resource": "r", "owner": "o"});
    let (_, lease) = twice(server, "/v1/locks", with(identity, "request", lock)).await;

    let items = json!({"items": [{"payload": 1}, {"payload": 2}]});
    server.post("/v1/inbox/claimed", items).await.expect(201);
    let claim = with(identity, "request", json!({"worker": "w"}));
    twice(server, "/v1/inbox/claimed/claim", claim).await;
    let claimed = &get("/v1/inbox/claimed").await["processing"];

    let event = with(identity, "id", json!({"type": "Happened", "payload": 1}));
    twice(server, "/v1/outbox", json!({"events": [event]})).await;
    let emitted = &get("/v1/outbox").await["pending"];

    let begin = with(identity, "request", json!({"key": "k"}));
    let (begun, _) = twice(server, "/v1/once", begin).await;
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    [
        number(pushed),
        number(&lease["holds"]),
        number(claimed),
        number(emitted),
        begun.into(),
    ]
}

#[tokio::test]
async fn what_is_asked_again_is_done_once() {
    for server in both().await {
        assert_eq!(effects(&server, Identity::Its).await, [1, 1, 1, 1, 201]);
        server.end().await;
    }
}

/// The control: the same without a request id is another request. It is done twice, and a begin finds itself in flight.
#[tokio::test]
async fn what_has_no_identity_is_done_twice() {
    for server in both().await {
        assert_eq!(effects(&server, Identity::None).await, [2, 2, 2, 2, 409]);
        server.end().await;
    }
}
