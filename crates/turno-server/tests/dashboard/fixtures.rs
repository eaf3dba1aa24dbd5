//! Test data to display.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use turno::access::{AccessNew, Role};
use turno::store::{AfterRefusal, Archive, OnDead, Order, OutboxClaim, OutboxSettle, Refusal};
use uuid::Uuid;

use crate::browser::{Browser, Screen};
use crate::common::Running;

/// Opens a browser on a server.
pub async fn look(server: &Running, screen: Screen) -> Browser {
    Browser::open(screen, &page(server)).await
}

pub fn page(server: &Running) -> String {
    format!("http://{}/", server.address)
}

pub async fn lock(server: &Running, resource: &str, description: &str) -> Value {
    let ask = json!({"resource": resource, "ttl": "5m", "user": "1", "service": "flowpay", "description": description});
    server.post("/v1/locks", ask).await.expect(201)
}

/// Creates a failed item.
pub async fn failed(server: &Running, queue: &str, payload: Value, error: &str) {
    let path = format!("/v1/inbox/{}", encoded(queue));
    let items = json!({"items": [{"payload": payload, "max_attempts": 1}]});
    server.post(&path, items).await.expect(201);
    let claim = json!({"worker": "w"});
    let claimed = server
        .post(&format!("{path}/claim"), claim)
        .await
        .expect(200);
    let fail = json!({"claims": [{"claim": claimed["items"][0]["claim"], "error": error}]});
    server.post(&format!("{path}/fail"), fail).await.expect(200);
}

/// Creates a dead event.
pub async fn dead(server: &Running, kind: &str, payload: Value, error: &str) {
    let emit = json!({"events": [{"type": kind, "payload": payload}]});
    server.post("/v1/outbox", emit).await.expect(201);
    let store = server.turno.store();
    let ask = OutboxClaim {
        relay: "relay".into(),
        limit: 100,
        lease: Duration::from_secs(60),
        order: Order::AsEmitted,
        token: Uuid::now_v7(),
    };
    let events = store.outbox_claim(&ask).await.unwrap();
    let refused = events.iter().map(|event| Refusal {
        seq: event.seq,
        error: error.to_owned(),
        next: AfterRefusal::Dead(OnDead::Skip),
    });
    let settle = OutboxSettle {
        token: ask.token,
        sent: Vec::new(),
        refused: refused.collect(),
        doubtful: Vec::new(),
        deferred: Vec::new(),
        archive: Archive::Ids,
        request: Uuid::now_v7(),
    };
    store.outbox_settle(&settle).await.unwrap();
}

/// Creates an unknown once key.
pub async fn unknown(server: &Running, key: &str) {
    let begun = server
        .post("/v1/once", json!({"key": key}))
        .await
        .expect(201);
    let claim = encoded(begun["claim"].as_str().unwrap());
    let path = format!("/v1/once/{claim}?outcome=unknown");
    server.delete(&path).await.expect(204);
}

/// Creates one of everything.
pub async fn everything(server: &Running) {
    let held = lock(server, "PRESTAMO/7", "Registro de pago").await;
    let path = format!("/v1/leases/{}", encoded(held["id"].as_str().unwrap()));
    server.delete(&path).await.expect(204);
    server.delete(&path).await;
    lock(server, "PRESTAMO/123", "Registro de pago").await;
    failed(
        server,
        "presentations",
        json!({"presentation": 7}),
        "timeout after 30 s",
    )
    .await;
    dead(
        server,
        "TicketCreatedEvent",
        json!({"ticket": 1041}),
        "422 unknown customer",
    )
    .await;
    unknown(server, "pagos/77").await;
    server
        .post("/v1/once", json!({"key": "pagos/78", "lease": "5m"}))
        .await
        .expect(201);
}

/// Returns a name, percent-encoded.
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// Creates an access token and returns its text.
pub async fn token(server: &Running, name: &str, role: Role, prefix: &str) -> String {
    let new = AccessNew {
        prefix: prefix.to_owned(),
        ..AccessNew::new(name, role)
    };
    let (_, text) = server.turno.access_create(new).await.unwrap();
    text.as_str().to_owned()
}
