//! Text of callers is kept unchanged.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::both;
use crate::inbox::{claim, push};

/// JSON that other programs have trouble with is returned as it was written, wherever it was stored.
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
                let response = server.send(request, body).await;
                assert!(response.status.is_success(), "{json:.20}: {response:?}");
                String::from_utf8(response.body.to_vec()).unwrap()
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

/// An error message can be any text.
#[tokio::test]
async fn an_error_may_be_any_text() {
    for server in both().await {
        push(&server, "mail", json!([{"payload": 1}])).await;
        let item = claim(&server, "mail", 1).await.remove(0);
        let failed = json!({"claim": item["claim"], "error": "a\u{0}b\n\u{1f4a5}", "final": true});
        let response = server
            .post("/v1/inbox/mail/fail", json!({"claims": [failed]}))
            .await;
        assert_eq!(response.expect(200)["done"], 1);
        let items = server
            .get("/v1/inbox/mail/items?state=failed")
            .await
            .expect(200);
        let error = &items["items"][0]["errors"][0]["error"];
        assert_eq!(error, "a\u{fffd}b\n\u{1f4a5}");
        server.end().await;
    }
}
