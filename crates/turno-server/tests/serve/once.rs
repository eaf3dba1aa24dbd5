//! Once over HTTP.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::{Running, TestResponse, both};
use crate::inbox::LONG_NUMBER;

async fn begin(server: &Running, ask: Value) -> TestResponse {
    server.post("/v1/once", ask).await
}

/// Returns the path of a claim: its slashes need not be encoded.
fn path_of(begun: &Value) -> String {
    format!("/v1/once/{}", begun["claim"].as_str().unwrap())
}

#[tokio::test]
async fn the_work_of_a_key_is_done_once() {
    for server in both().await {
        let ask = json!({"key": "pago/77", "fingerprint": "f", "worker": "w", "lease": "5m"});
        let begun = begin(&server, ask.clone()).await.expect(201);
        assert_eq!(begun["key"], "pago/77");
        assert_eq!(begun["attempt"], 1);
        let token = begun["token"].as_i64().unwrap();
        assert_eq!(begun["claim"], format!("pago/77@{token}"));
        assert!(begun["remaining_ms"].as_u64().unwrap() > 290_000);

        let response = begin(&server, ask.clone()).await;
        let problem = response.problem(409, "in_flight");
        assert_eq!(response.headers["retry-after"], "1");
        assert_eq!(
            (&problem["key"], &problem["worker"]),
            (&json!("pago/77"), &json!("w"))
        );
        assert_eq!(problem["attempt"], 1);

        let body = format!(r#"{{"answer": {{"total": {LONG_NUMBER}}}}}"#);
        let path = path_of(&begun);
        let put = || {
            server
                .request("PUT", &path)
                .header("content-type", "application/json")
        };
        server.send(put(), body.clone()).await.expect(204);
        server.send(put(), r#"{"answer": 2}"#).await.expect(204);

        let response = begin(&server, ask).await;
        let text = String::from_utf8(response.body.to_vec()).unwrap();
        assert_eq!(
            text,
            format!(r#"{{"replay":{{"total": {LONG_NUMBER}}},"stored":true}}"#),
            "the first answer stays, to the letter"
        );
        response.expect(200);
        assert_eq!(response.headers["idempotency-replayed"], "true");
        begin(&server, json!({"key": "pago/77", "fingerprint": "other"}))
            .await
            .problem(422, "mismatch");
        server.end().await;
    }
}

#[tokio::test]
async fn work_is_given_back_undone_or_in_doubt() {
    for server in both().await {
        let ask = json!({"key": "pago/77"});
        let begun = begin(&server, ask.clone()).await.expect(201);
        server.delete(&path_of(&begun)).await.expect(204);
        // Its response may have been lost.
        server.delete(&path_of(&begun)).await.expect(204);
        let second = begin(&server, ask.clone()).await.expect(201);
        assert_eq!(second["attempt"], 1, "nothing was done");

        let path = format!("{}?outcome=unknown", path_of(&second));
        server.delete(&path).await.expect(204);
        let problem = begin(&server, ask).await.problem(409, "unknown");
        assert_eq!(problem["worker"], "anonymous", "not the server's own name");
        let rerun = json!({"key": "pago/77", "unknown": "rerun"});
        let third = begin(&server, rerun).await.expect(201);
        assert_eq!(third["attempt"], 2);
        let stale = path_of(&second);
        let response = server.put(&stale, json!({})).await;
        response.problem(410, "stale");
        let response = server.json("PATCH", &stale, json!({})).await;
        response.problem(410, "stale");
        server.delete(&stale).await.problem(410, "stale");

        let path = path_of(&third);
        server
            .json("PATCH", &path, json!({"lease": "1h"}))
            .await
            .expect(204);
        server
            .send(server.request("PATCH", &path), "")
            .await
            .expect(204);
        server.put(&path, json!({})).await.expect(204);
        let response = begin(&server, json!({"key": "pago/77"})).await.expect(200);
        assert_eq!(response, json!({"replay": null, "stored": false}));
        server.end().await;
    }
}

#[tokio::test]
async fn a_waiting_caller_gets_the_answer_of_the_run() {
    for server in both().await {
        let begun = begin(&server, json!({"key": "k"})).await.expect(201);
        let waiting = json!({"key": "k", "wait": "1m"});
        let (response, ()) = tokio::join!(begin(&server, waiting), async {
            server.until_a_caller_waits().await;
            let answer = json!({"answer": null});
            server.put(&path_of(&begun), answer).await.expect(204);
        });
        assert_eq!(
            response.expect(200),
            json!({"replay": null, "stored": true})
        );
        server.end().await;
    }
}

#[tokio::test]
async fn a_begin_is_repeated_and_a_quota_is_kept() {
    for server in both().await {
        let quota = json!({"scope": "tenant", "most": 1});
        let ask = json!({"key": "a", "quota": quota, "request": Uuid::now_v7()});
        let first = begin(&server, ask.clone()).await.expect(201);
        let again = begin(&server, ask).await.expect(201);
        assert_eq!(first["claim"], again["claim"], "its answer was lost");
        begin(&server, json!({"key": "b", "quota": quota}))
            .await
            .problem(429, "over_quota");
        server.end().await;
    }
}

#[tokio::test]
async fn an_operator_resolves_an_unknown_key() {
    for server in both().await {
        let resolve = json!({"answer": {"receipt": 7}, "user": "ana", "reason": "the bank has it"});
        let path = "/v1/once-keys/pago/77";
        server
            .put(path, resolve.clone())
            .await
            .problem(404, "not_found");
        let begun = begin(&server, json!({"key": "pago/77", "worker": "w"}))
            .await
            .expect(201);
        let refused = server
            .put(path, resolve.clone())
            .await
            .problem(409, "in_flight");
        assert_eq!(
            (&refused["key"], &refused["worker"]),
            (&json!("pago/77"), &json!("w"))
        );
        let doubted = format!("{}?outcome=unknown", path_of(&begun));
        server.delete(&doubted).await.expect(204);

        server.put(path, resolve.clone()).await.expect(204);
        let response = begin(&server, json!({"key": "pago/77"})).await.expect(200);
        assert_eq!(response, json!({"replay": {"receipt": 7}, "stored": true}));
        server.put(path, resolve).await.problem(409, "answered");
        let late = json!({"answer": 8});
        server
            .put(&path_of(&begun), late)
            .await
            .problem(410, "stale");
        let history = server.get("/v1/history?part=once").await.expect(200);
        let entries = history["history"].as_array().unwrap();
        assert_eq!(entries.len(), 1, "{history}");
        let entry = &entries[0];
        assert_eq!(
            [
                &entry["event"],
                &entry["resource"],
                &entry["actor"],
                &entry["reason"]
            ],
            ["resolved", "pago/77", "ana", "the bank has it"]
        );
        server.end().await;
    }
}

#[tokio::test]
async fn operators_list_and_forget_keys() {
    for server in both().await {
        for key in ["pago/1", "pago/2", "x"] {
            begin(&server, json!({"key": key})).await.expect(201);
        }
        let done = begin(&server, json!({"key": "pago/3"})).await.expect(201);
        let answer = json!({"answer": {"receipt": 7}, "ttl": "1h"});
        server.put(&path_of(&done), answer).await.expect(204);

        let page = server
            .get("/v1/once?prefix=pago/&limit=2")
            .await
            .expect(200);
        assert_eq!(page["keys"][1]["key"], "pago/2");
        assert_eq!(page["next"], "pago/2");
        let page = server
            .get("/v1/once?prefix=pago/&limit=2&after=pago/2")
            .await
            .expect(200);
        assert_eq!(page["keys"][0]["state"], "done");
        assert_eq!(page.get("next"), None);
        let page = server.get("/v1/once?state=in_flight").await.expect(200);
        assert_eq!(page["keys"].as_array().unwrap().len(), 3);

        let known = server.get("/v1/once-keys/pago/3").await.expect(200);
        assert_eq!(known["answer"], json!({"receipt": 7}));
        assert_eq!(known["claim"], done["claim"]);
        let forgotten = server.delete("/v1/once-keys/pago%2F3").await.expect(200);
        assert_eq!(forgotten, json!({"forgotten": true}));
        server
            .get("/v1/once-keys/pago/3")
            .await
            .problem(404, "not_found");
        let in_flight = server.delete("/v1/once-keys/x").await.expect(200);
        assert_eq!(in_flight, json!({"forgotten": false}));
        server.end().await;
    }
}
