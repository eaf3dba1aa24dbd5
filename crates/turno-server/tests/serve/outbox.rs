//! The outbox over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use turno::store::{AfterRefusal, Archive, OnDead, Order, OutboxClaim, OutboxSettle, Refusal};
use uuid::Uuid;

use crate::common::{Running, both};
use crate::inbox::LONG_NUMBER;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER_TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn emit(server: &Running, events: Value) -> Value {
    let response = server.post("/v1/outbox", json!({"events": events})).await;
    response.expect(201)["ids"].clone()
}

async fn find(server: &Running, id: &Value) -> Value {
    let id = id.as_str().unwrap();
    server
        .get(&format!("/v1/outbox/events/{id}"))
        .await
        .expect(200)
}

#[tokio::test]
async fn events_are_stored_and_seen() {
    for server in both().await {
        let own = Uuid::now_v7();
        let body = format!(
            r#"{{"events": [{{"type": "TicketCreatedEvent", "payload": {{"n": {LONG_NUMBER}}}, "key": "7",
                "correlation_id": "c", "headers": {{"tenant": "north"}}}},
               {{"type": "ticket.closed", "payload": null, "id": "{own}", "delay": "1h", "traceparent": "{OTHER_TRACE}"}}]}}"#
        );
        let traced = |parent: &str| {
            server
                .request("POST", "/v1/outbox")
                .header("content-type", "application/json")
                .header("traceparent", parent)
                .header("tracestate", "vendor=1")
        };
        let ids = server.send(traced(TRACE), body).await.expect(201)["ids"].clone();
        assert_eq!(ids[1], own.to_string());

        let path = format!("/v1/outbox/events/{}", ids[0].as_str().unwrap());
        let response = server.get(&path).await;
        let text = String::from_utf8(response.body.to_vec()).unwrap();
        assert!(text.contains(LONG_NUMBER), "{text}");
        let event = response.expect(200);
        assert_eq!(event["type"], "TicketCreatedEvent");
        assert_eq!(
            (&event["key"], &event["correlation_id"]),
            (&json!("7"), &json!("c"))
        );
        assert_eq!(event["headers"], json!({"tenant": "north"}));
        assert_eq!(event["traceparent"], TRACE, "the request's own");
        assert_eq!(find(&server, &ids[1]).await["traceparent"], OTHER_TRACE);

        // The same id is stored once; an invalid traceparent starts no trace.
        let again = json!({"events": [{"type": "ticket.closed", "payload": 1, "id": own}, {"type": "t", "payload": 1}]});
        let ids = server
            .send(traced("nonsense"), again.to_string())
            .await
            .expect(201)["ids"]
            .clone();
        assert_eq!(ids[0], own.to_string());
        let stats = server.get("/v1/outbox").await.expect(200);
        assert_eq!(
            (&stats["pending"], &stats["scheduled"]),
            (&json!(2), &json!(1))
        );
        let page = server.get("/v1/outbox/events?limit=1").await.expect(200);
        assert_eq!(page["events"][0]["type"], "TicketCreatedEvent");
        let path = format!("/v1/outbox/events?after={}", page["next"]);
        let page = server.get(&path).await.expect(200);
        assert_eq!(page["events"][0]["id"], ids[1]);
        assert_eq!(page.get("next"), None);
        let missing = format!("/v1/outbox/events/{}", Uuid::now_v7());
        server.get(&missing).await.problem(404, "not_found");
        server.end().await;
    }
}

#[tokio::test]
async fn a_repeated_emission_gets_the_same_answer() {
    for server in both().await {
        let ask = json!({"events": [{"type": "t", "payload": 1}], "request": Uuid::now_v7()});
        let first = server.post("/v1/outbox", ask.clone()).await.expect(201);
        let again = server.post("/v1/outbox", ask).await.expect(201);
        assert_eq!(first, again);
        assert_eq!(server.get("/v1/outbox").await.expect(200)["total"], 1);
        server.end().await;
    }
}

/// Runs a relay that refuses all events.
pub async fn refuse(server: &Running) {
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
        error: "no queue is bound".into(),
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

#[tokio::test]
async fn dead_events_are_revived_or_given_up() {
    for server in both().await {
        let event = || json!({"type": "t", "payload": 1});
        let ids = emit(&server, json!([event(), event(), event()])).await;
        refuse(&server).await;
        let dead = server.get("/v1/outbox/events?state=dead").await.expect(200);
        assert_eq!(dead["events"].as_array().unwrap().len(), 3);
        assert_eq!(dead["events"][0]["errors"][0]["error"], "no queue is bound");

        let ask = json!({"ids": [ids[0]]});
        let response = server.post("/v1/outbox/requeue", ask).await.expect(200);
        assert_eq!(response, json!({"requeued": 1}));
        let ask = json!({"ids": [ids[0], ids[1]]});
        let response = server.post("/v1/outbox/discard", ask).await.expect(200);
        assert_eq!(
            response,
            json!({"discarded": 1}),
            "the other one is not dead"
        );
        let given_up = find(&server, &ids[1]).await;
        assert_eq!(given_up["state"], "discarded");
        assert_eq!(given_up["by"], "anonymous", "the access token's name");
        let all = server.request("POST", "/v1/outbox/requeue");
        assert_eq!(
            server.send(all, "").await.expect(200),
            json!({"requeued": 1})
        );

        refuse(&server).await;
        let ask = json!({"ids": [ids[2]], "user": "Rosa"});
        server.post("/v1/outbox/discard", ask).await.expect(200);
        assert_eq!(find(&server, &ids[2]).await["by"], "Rosa");
        server.end().await;
    }
}
