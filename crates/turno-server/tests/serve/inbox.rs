//! The inbox over HTTP.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::{Running, both};

/// A number that no floating-point type can hold, as it is written.
pub const LONG_NUMBER: &str = "12345678901234567890.10";

pub async fn push(server: &Running, queue: &str, items: Value) -> Value {
    let path = format!("/v1/inbox/{queue}");
    server
        .post(&path, json!({"items": items}))
        .await
        .expect(201)
}

pub async fn claim(server: &Running, queue: &str, limit: u32) -> Vec<Value> {
    let path = format!("/v1/inbox/{queue}/claim");
    let ask = json!({"worker": "w", "limit": limit, "lease": "10m", "wait": "1m"});
    let response = server.post(&path, ask).await.expect(200);
    response["items"].as_array().unwrap().clone()
}

async fn stats(server: &Running, queue: &str) -> Value {
    server.get(&format!("/v1/inbox/{queue}")).await.expect(200)
}

/// A name may be mistyped. A claim waits for the first push, and finds nothing before it.
#[tokio::test]
async fn a_queue_without_a_push_is_not_found() {
    for server in both().await {
        for path in [
            "/v1/inbox/mial",
            "/v1/inbox/mial/items",
            "/v1/inbox/mial/items?state=failed",
        ] {
            let problem = server.get(path).await.problem(404, "no_queue");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("there is no queue mial"), "{problem}");
        }
        let claimed = server.post("/v1/inbox/mial/claim", json!({"worker": "w"}));
        assert_eq!(claimed.await.expect(200), json!({"items": []}));
        let requeued = server.post("/v1/inbox/mial/requeue", json!({}));
        assert_eq!(requeued.await.expect(200), json!({"requeued": 0}));
        server.get("/v1/inbox/mial").await.problem(404, "no_queue");
        push(&server, "mial", json!([{"payload": 1}])).await;
        assert_eq!(stats(&server, "mial").await["pending"], 1);
        let none = server.get("/v1/inbox/mial/items?state=failed").await;
        assert_eq!(none.expect(200), json!({"items": []}));
        server.end().await;
    }
}

#[tokio::test]
async fn items_are_pushed_claimed_and_completed() {
    for server in both().await {
        // A slash in a queue's name is percent-encoded, because a queue is one segment.
        let queue = "pagos%2Fm%C3%A9xico";
        let body = format!(
            r#"{{"items": [{{"payload": {{"n":{LONG_NUMBER}, "s": "ñ"}}, "key": "a"}}, {{"payload": null}}, {{"payload": 2, "key": "a"}}]}}"#
        );
        let request = server
            .request("POST", &format!("/v1/inbox/{queue}"))
            .header("content-type", "application/json; charset=utf-8");
        let pushed = server.send(request, body).await.expect(201);
        let ids = &pushed["ids"];
        assert_eq!(ids[0], ids[2]);
        assert_eq!(pushed["duplicates"], json!([ids[0]]));
        assert_eq!(pushed["duplicate_places"], json!([2]));

        let path = format!("/v1/inbox/{queue}/claim");
        let response = server
            .post(&path, json!({"worker": "w", "limit": 10}))
            .await;
        let text = String::from_utf8(response.body.to_vec()).unwrap();
        assert!(
            text.contains(&format!(r#"{{"n":{LONG_NUMBER}, "s": "ñ"}}"#)),
            "{text}"
        );
        let items = response.expect(200)["items"].as_array().unwrap().clone();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0]["attempt"], 1);
        assert_eq!(items[0]["key"], "a");
        assert_eq!(items[1]["payload"], Value::Null);
        assert_eq!(stats(&server, queue).await["processing"], 2);

        // As text, and as an object.
        let claims = json!([items[0]["claim"], {"claim": items[1]["claim"]}]);
        let complete = format!("/v1/inbox/{queue}/complete");
        let settled = server
            .post(&complete, json!({"claims": claims}))
            .await
            .expect(200);
        assert_eq!(settled, json!({"done": 2, "stale": []}));
        let again = server
            .post(&complete, json!({"claims": claims}))
            .await
            .expect(200);
        assert_eq!(
            again,
            json!({"done": 0, "stale": [items[0]["claim"], items[1]["claim"]]}),
            "in their order"
        );

        let response = stats(&server, queue).await;
        assert_eq!(
            (&response["completed"], &response["total"]),
            (&json!(2), &json!(2))
        );
        let queues = server.get("/v1/inbox?prefix=pagos/").await.expect(200);
        assert_eq!(queues["queues"][0]["queue"], "pagos/méxico");
        let none = server.get("/v1/inbox?prefix=x").await.expect(200);
        assert_eq!(none, json!({"queues": []}));
        server.end().await;
    }
}

#[tokio::test]
async fn a_repeated_push_gets_the_same_answer() {
    for server in both().await {
        let request = Uuid::now_v7();
        let ask = json!({"items": [{"payload": 1}, {"payload": 2}], "request": request});
        let first = server.post("/v1/inbox/mail", ask.clone()).await.expect(201);
        let again = server.post("/v1/inbox/mail", ask).await.expect(201);
        assert_eq!(first, again);
        assert_eq!(stats(&server, "mail").await["pending"], 2);

        let ask = json!({"worker": "w", "request": Uuid::now_v7(), "lease": "10m"});
        let path = "/v1/inbox/mail/claim";
        let first = server.post(path, ask.clone()).await.expect(200);
        let again = server.post(path, ask).await.expect(200);
        assert_eq!(first["items"][0]["claim"], again["items"][0]["claim"]);
        assert_eq!(stats(&server, "mail").await["processing"], 1);

        let claim = &first["items"][0]["claim"];
        let ask = json!({"claims": [claim], "request": Uuid::now_v7()});
        for _ in 0..2 {
            let response = server.post("/v1/inbox/mail/complete", ask.clone()).await;
            assert_eq!(response.expect(200), json!({"done": 1, "stale": []}));
        }
        let second = claim_one(&server).await;
        let ask = json!({"claims": [{"claim": second, "error": "no", "retry_in": "0s"}], "request": Uuid::now_v7()});
        for _ in 0..2 {
            let response = server.post("/v1/inbox/mail/fail", ask.clone()).await;
            assert_eq!(response.expect(200), json!({"done": 1, "stale": []}));
        }
        let third = claim_one(&server).await;
        let ask = json!({"claims": [third], "request": Uuid::now_v7()});
        for _ in 0..2 {
            let response = server.post("/v1/inbox/mail/give-back", ask.clone()).await;
            assert_eq!(response.expect(200), json!({"done": 1, "stale": []}));
        }
        let response = stats(&server, "mail").await;
        assert_eq!(
            (&response["completed"], &response["pending"]),
            (&json!(1), &json!(1))
        );
        server.end().await;
    }
}

async fn claim_one(server: &Running) -> Value {
    claim(server, "mail", 1).await.remove(0)["claim"].clone()
}

#[tokio::test]
async fn items_have_a_time_a_place_and_a_page() {
    for server in both().await {
        let items = json!([
            {"payload": 1, "priority": 3, "group": "g", "max_attempts": 2},
            {"payload": 2, "priority": 0},
            {"payload": 3, "delay": "1d"},
            {"payload": 4, "run_at": "2100-01-01T00:00:00Z"},
            {"payload": 5, "run_at": "1990-01-01T00:00:00Z"},
        ]);
        let ids = push(&server, "mail", items).await["ids"].clone();
        let first = server.get("/v1/inbox/mail/items?limit=2").await.expect(200);
        assert_eq!(first["items"][0]["id"], ids[0]);
        assert_eq!(first["next"], ids[1]);
        let path = format!("/v1/inbox/mail/items?limit=2&after={}", ids[1]);
        let last = server.get(&path).await.expect(200);
        assert_eq!(last["items"][0]["id"], ids[4]);
        assert_eq!(last.get("next"), None);
        assert_eq!(stats(&server, "mail").await["scheduled"], 2);

        let claimed = claim(&server, "mail", 10).await;
        let payloads: Vec<&Value> = claimed.iter().map(|item| &item["payload"]).collect();
        assert_eq!(payloads, [2, 5, 1], "the most urgent first");
        assert_eq!(claimed[2]["group"], "g");
        assert_eq!(claimed[2]["max_attempts"], 2);
        server.end().await;
    }
}

#[tokio::test]
async fn a_waiting_claim_is_answered_when_there_is_work() {
    for server in both().await {
        let waiting = json!({"worker": "w", "wait": "1m"});
        let (response, ()) = tokio::join!(server.post("/v1/inbox/mail/claim", waiting), async {
            server.until_a_caller_waits().await;
            push(&server, "mail", json!([{"payload": "hello"}])).await;
        });
        assert_eq!(response.expect(200)["items"][0]["payload"], "hello");
        server.end().await;
    }
}

/// A worker does not respond until its lease expires: a waiting client gets the item, and the first worker is then too late.
#[tokio::test]
async fn an_item_whose_lease_is_over_is_delivered_again() {
    for server in both().await {
        push(&server, "q", json!([{"payload": "hello"}])).await;
        let brief = json!({"worker": "gone", "lease": "100ms"});
        let first = server.post("/v1/inbox/q/claim", brief).await.expect(200);
        let next = &claim(&server, "q", 1).await[0];
        assert_eq!(next["id"], first["items"][0]["id"]);
        assert_eq!(
            (&next["payload"], &next["attempt"]),
            (&json!("hello"), &json!(2))
        );
        let complete = async |claim: &Value| {
            let response = server.post("/v1/inbox/q/complete", json!({"claims": [claim]}));
            response.await.expect(200)
        };
        let late = &first["items"][0]["claim"];
        assert_eq!(complete(late).await, json!({"done": 0, "stale": [late]}));
        assert_eq!(
            stats(&server, "q").await["processing"],
            1,
            "it is the next one's"
        );
        assert_eq!(
            complete(&next["claim"]).await,
            json!({"done": 1, "stale": []})
        );
        server.end().await;
    }
}

/// The control: until its lease expires, no other client gets it, however long it waits.
#[tokio::test]
async fn an_item_whose_lease_is_not_over_is_not() {
    for server in both().await {
        push(&server, "q", json!([{"payload": "hello"}])).await;
        assert_eq!(claim(&server, "q", 1).await.len(), 1);
        let next = json!({"worker": "next", "wait": "300ms"});
        let response = server.post("/v1/inbox/q/claim", next).await.expect(200);
        assert_eq!(response["items"], json!([]));
        server.end().await;
    }
}
