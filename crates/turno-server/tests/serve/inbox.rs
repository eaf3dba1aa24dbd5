//! The inbox over HTTP.

use serde_json::{Value, json};
use turno::access::{AccessNew, Role};
use turno_server::serve::{Admission, Options};
use uuid::Uuid;

use crate::common::{Running, both};

/// What no floating-point number can hold, as it is written.
pub const LONG_NUMBER: &str = "12345678901234567890.10";

async fn push(server: &Running, queue: &str, items: Value) -> Value {
    let path = format!("/v1/inbox/{queue}");
    server
        .post(&path, json!({"items": items}))
        .await
        .expect(201)
}

async fn claim(server: &Running, queue: &str, limit: u32) -> Vec<Value> {
    let path = format!("/v1/inbox/{queue}/claim");
    let ask = json!({"worker": "w", "limit": limit, "lease": "10m", "wait": "1m"});
    let told = server.post(&path, ask).await.expect(200);
    told["items"].as_array().unwrap().clone()
}

async fn stats(server: &Running, queue: &str) -> Value {
    server.get(&format!("/v1/inbox/{queue}")).await.expect(200)
}

#[tokio::test]
async fn items_are_pushed_claimed_and_completed() {
    for server in both().await {
        // A slash in a queue's name is encoded: a queue is one segment.
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
        let told = server
            .post(&path, json!({"worker": "w", "limit": 10}))
            .await;
        let text = String::from_utf8(told.body.to_vec()).unwrap();
        assert!(
            text.contains(&format!(r#"{{"n":{LONG_NUMBER}, "s": "ñ"}}"#)),
            "{text}"
        );
        let items = told.expect(200)["items"].as_array().unwrap().clone();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0]["attempt"], 1);
        assert_eq!(items[0]["key"], "a");
        assert_eq!(items[1]["payload"], Value::Null);
        assert_eq!(stats(&server, queue).await["processing"], 2);

        // A text, and an object.
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

        let told = stats(&server, queue).await;
        assert_eq!((&told["completed"], &told["total"]), (&json!(2), &json!(2)));
        let queues = server.get("/v1/inbox?prefix=pagos/").await.expect(200);
        assert_eq!(queues["queues"][0]["queue"], "pagos/méxico");
        let nobody = server.get("/v1/inbox?prefix=x").await.expect(200);
        assert_eq!(nobody, json!({"queues": []}));
        server.end().await;
    }
}

#[tokio::test]
async fn whoever_repeats_a_request_is_answered_the_same() {
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
            let told = server.post("/v1/inbox/mail/complete", ask.clone()).await;
            assert_eq!(told.expect(200), json!({"done": 1, "stale": []}));
        }
        let second = claim_one(&server).await;
        let ask = json!({"claims": [{"claim": second, "error": "no", "retry_in": 0}], "request": Uuid::now_v7()});
        for _ in 0..2 {
            let told = server.post("/v1/inbox/mail/fail", ask.clone()).await;
            assert_eq!(told.expect(200), json!({"done": 1, "stale": []}));
        }
        let third = claim_one(&server).await;
        let ask = json!({"claims": [third], "request": Uuid::now_v7()});
        for _ in 0..2 {
            let told = server.post("/v1/inbox/mail/give-back", ask.clone()).await;
            assert_eq!(told.expect(200), json!({"done": 1, "stale": []}));
        }
        let told = stats(&server, "mail").await;
        assert_eq!(
            (&told["completed"], &told["pending"]),
            (&json!(1), &json!(1))
        );
        server.end().await;
    }
}

async fn claim_one(server: &Running) -> Value {
    claim(server, "mail", 1).await.remove(0)["claim"].clone()
}

#[tokio::test]
async fn a_failed_item_is_tried_again_set_aside_and_revived() {
    for server in both().await {
        push(&server, "mail", json!([{"payload": "a"}, {"payload": "b"}])).await;
        let items = claim(&server, "mail", 2).await;
        let claims = json!([
            {"claim": items[0]["claim"], "error": "no answer", "retry_in": "1h"},
            {"claim": items[1]["claim"], "error": "it is nonsense", "final": true},
        ]);
        let told = server
            .post("/v1/inbox/mail/fail", json!({"claims": claims}))
            .await;
        assert_eq!(told.expect(200)["done"], 2);

        let failed = server
            .get("/v1/inbox/mail/items?state=failed")
            .await
            .expect(200);
        let item = &failed["items"][0];
        assert_eq!(item["id"], items[1]["id"]);
        assert_eq!(item["payload"], "b");
        assert_eq!(item["errors"][0]["error"], "it is nonsense");
        assert_eq!(item["errors"][0]["worker"], "w");
        let scheduled = server.get("/v1/inbox/mail/items?state=scheduled").await;
        assert_eq!(scheduled.expect(200)["items"][0]["id"], items[0]["id"]);

        let path = "/v1/inbox/mail/requeue";
        let other = json!({"ids": [items[0]["id"], 0]});
        assert_eq!(
            server.post(path, other).await.expect(200),
            json!({"requeued": 0})
        );
        // A body may be left out.
        let all = server.send(server.request("POST", path), "").await;
        assert_eq!(all.expect(200), json!({"requeued": 1}));
        let again = claim(&server, "mail", 2).await;
        assert_eq!(again.len(), 1);
        assert_eq!(again[0]["attempt"], 1, "all attempts are before it");
        server.end().await;
    }
}

#[tokio::test]
async fn a_claim_is_extended_given_back_or_taken_away() {
    for server in both().await {
        push(
            &server,
            "mail",
            json!([{"payload": 1}, {"payload": 2}, {"payload": 3}]),
        )
        .await;
        let mut items = Vec::new();
        for _ in 0..3 {
            items.extend(claim(&server, "mail", 1).await);
        }
        let stale = json!("1@0190f1f4-2b3c-7d4e-8f50-112233445566");
        let claims = json!([{"claim": items[0]["claim"], "lease": "2h"}, items[1]["claim"], stale]);
        let told = server
            .post("/v1/inbox/mail/extend", json!({"claims": claims}))
            .await;
        assert_eq!(told.expect(200), json!({"done": 2, "stale": [stale]}));

        let told = server
            .post(
                "/v1/inbox/mail/give-back",
                json!({"claims": [items[1]["claim"]]}),
            )
            .await;
        assert_eq!(told.expect(200)["done"], 1);
        let again = claim(&server, "mail", 1).await;
        assert_eq!(again[0]["id"], items[1]["id"]);
        assert_eq!(again[0]["attempt"], 1, "it was not begun");

        let old = server
            .send(server.request("POST", "/v1/inbox/mail/reset"), "")
            .await;
        assert_eq!(old.expect(200), json!({"reset": 0}), "none for 15 minutes");
        let all = json!({"older_than": 0});
        let reset = server.post("/v1/inbox/mail/reset", all).await.expect(200);
        assert_eq!(reset, json!({"reset": 3}));
        let told = server
            .post(
                "/v1/inbox/mail/complete",
                json!({"claims": [items[0]["claim"]]}),
            )
            .await;
        assert_eq!(told.expect(200)["stale"], json!([items[0]["claim"]]));
        server.end().await;
    }
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
        let (told, ()) = tokio::join!(server.post("/v1/inbox/mail/claim", waiting), async {
            server.until_somebody_waits().await;
            push(&server, "mail", json!([{"payload": "hello"}])).await;
        });
        assert_eq!(told.expect(200)["items"][0]["payload"], "hello");
        server.end().await;
    }
}

/// Whoever may touch some queues does not touch the others by their claims: they are answered as stale, and nothing is
/// applied to them. The control is the last line: whose token has no prefix may settle them wherever they are.
#[tokio::test]
async fn a_claim_of_another_queue_is_stale() {
    let options = Options {
        admission: Admission::Token,
        ..Options::default()
    };
    for store in both().await {
        let turno = store.turno.clone();
        let server = Running::on(turno.clone(), options.clone()).await;
        let mut tokens = Vec::new();
        for prefix in ["a/", ""] {
            let mut new = AccessNew::new("worker", Role::Operate);
            new.prefix = prefix.to_owned();
            let (_, text) = turno.access_create(new).await.unwrap();
            tokens.push(format!("Bearer {}", text.as_str()));
        }
        let ask = async |token: &str, path: &str, body: Value| {
            let request = server
                .request("POST", path)
                .header("authorization", token)
                .header("content-type", "application/json");
            server.send(request, body.to_string()).await
        };
        turno.inbox("a/mail").push(&1).await.unwrap();
        turno.inbox("b/mail").push(&2).await.unwrap();
        let own = turno.inbox("a/mail").claim().take().await.unwrap()[0].claim;
        let other = turno.inbox("b/mail").claim().take().await.unwrap()[0].claim;

        ask(
            &tokens[0],
            "/v1/inbox/b%2Fmail/complete",
            json!({"claims": [other]}),
        )
        .await
        .problem(403, "out_of_scope");
        for verb in ["fail", "extend", "give-back", "complete"] {
            let path = format!("/v1/inbox/a%2Fmail/{verb}");
            let told = ask(&tokens[0], &path, json!({"claims": [other]})).await;
            assert_eq!(
                told.expect(200),
                json!({"done": 0, "stale": [other]}),
                "{verb}"
            );
        }
        let path = "/v1/inbox/a%2Fmail/complete";
        let told = ask(&tokens[0], path, json!({"claims": [other, own]})).await;
        assert_eq!(told.expect(200), json!({"done": 1, "stale": [other]}));
        assert_eq!(turno.inbox("b/mail").stats().await.unwrap().processing, 1);
        let told = ask(&tokens[1], path, json!({"claims": [other]})).await;
        assert_eq!(told.expect(200), json!({"done": 1, "stale": []}));
        server.end().await;
        store.end().await;
    }
}

/// JSON that other programs stumble over comes back as it was written, from wherever it is kept.
#[tokio::test]
async fn any_json_comes_back_as_it_was_written() {
    let nested = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
    for server in both().await {
        for (place, json) in [
            r#""\u0000""#,
            r#""\ud800""#,
            r#"{"a":1, "a":2}"#,
            "1e999",
            "-0",
            "1.0",
            &nested,
        ]
        .into_iter()
        .enumerate()
        {
            let send = async |method: &str, path: &str, body: String| {
                let request = server
                    .request(method, path)
                    .header("content-type", "application/json");
                let told = server.send(request, body).await;
                assert!(told.status.is_success(), "{json:.20}: {told:?}");
                String::from_utf8(told.body.to_vec()).unwrap()
            };
            let queue = format!("/v1/inbox/q{place}");
            let items = format!(r#"{{"items": [{{"payload": {json}}}]}}"#);
            send("POST", &queue, items).await;
            let claim = r#"{"worker": "w"}"#.to_owned();
            let text = send("POST", &format!("{queue}/claim"), claim).await;
            assert!(text.contains(&format!(r#""payload":{json},"#)), "{text}");

            let id = Uuid::now_v7();
            let events =
                format!(r#"{{"events": [{{"type": "t", "payload": {json}, "id": "{id}"}}]}}"#);
            send("POST", "/v1/outbox", events).await;
            let text = send("GET", &format!("/v1/outbox/events/{id}"), String::new()).await;
            assert!(text.contains(&format!(r#""payload":{json},"#)), "{text}");

            let key = format!(r#"{{"key": "k{place}"}}"#);
            let begun: Value =
                serde_json::from_str(&send("POST", "/v1/once", key.clone()).await).unwrap();
            let path = format!("/v1/once/{}", begun["claim"].as_str().unwrap());
            send("PUT", &path, format!(r#"{{"answer": {json}}}"#)).await;
            let text = send("POST", "/v1/once", key).await;
            assert!(text.contains(&format!(r#""replay":{json},"#)), "{text}");
        }
        server.end().await;
    }
}

/// Whatever went wrong, it can be told.
#[tokio::test]
async fn an_error_may_be_any_text() {
    for server in both().await {
        push(&server, "mail", json!([{"payload": 1}])).await;
        let item = claim(&server, "mail", 1).await.remove(0);
        let failed = json!({"claim": item["claim"], "error": "a\u{0}b\n\u{1f4a5}", "final": true});
        let told = server
            .post("/v1/inbox/mail/fail", json!({"claims": [failed]}))
            .await;
        assert_eq!(told.expect(200)["done"], 1);
        let items = server
            .get("/v1/inbox/mail/items?state=failed")
            .await
            .expect(200);
        let error = &items["items"][0]["errors"][0]["error"];
        assert_eq!(error, "a\u{fffd}b\n\u{1f4a5}");
        server.end().await;
    }
}
