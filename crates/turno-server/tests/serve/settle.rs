//! Ends of claims, over HTTP.

use serde_json::{Value, json};
use turno::access::{AccessNew, Role};
use turno_server::{Admission, Options};

use crate::common::{Running, both};
use crate::inbox::{claim, push};

#[tokio::test]
async fn a_failed_item_is_tried_again_set_aside_and_revived() {
    for server in both().await {
        push(&server, "mail", json!([{"payload": "a"}, {"payload": "b"}])).await;
        let items = claim(&server, "mail", 2).await;
        let claims = json!([
            {"claim": items[0]["claim"], "error": "no answer", "retry_in": "1h"},
            {"claim": items[1]["claim"], "error": "it is nonsense", "final": true},
        ]);
        let response = server
            .post("/v1/inbox/mail/fail", json!({"claims": claims}))
            .await;
        assert_eq!(response.expect(200)["done"], 2);

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
        // The body is optional.
        let all = server.send(server.request("POST", path), "").await;
        assert_eq!(all.expect(200), json!({"requeued": 1}));
        let again = claim(&server, "mail", 2).await;
        assert_eq!(again.len(), 1);
        assert_eq!(again[0]["attempt"], 1, "all attempts are before it");

        let claims = json!([{"claim": again[0]["claim"], "final": true}]);
        let response = server
            .post("/v1/inbox/mail/fail", json!({"claims": claims}))
            .await;
        assert_eq!(response.expect(200)["done"], 1);
        let path = "/v1/inbox/mail/discard";
        let other = json!({"ids": [items[0]["id"], 0]});
        assert_eq!(
            server.post(path, other).await.expect(200),
            json!({"discarded": 0})
        );
        // A discard of all requires an explicit body.
        let empty = server.send(server.request("POST", path), "").await;
        assert_eq!(empty.status, 415);
        assert_eq!(
            server.post(path, json!({})).await.expect(200),
            json!({"discarded": 1})
        );
        let metrics = server.get("/metrics").await.body.to_vec();
        let metrics = String::from_utf8(metrics).unwrap();
        let counted = "turno_inbox_outcomes_total{outcome=\"discarded\"} 1";
        assert!(metrics.contains(counted), "{metrics}");
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
        let response = server
            .post("/v1/inbox/mail/extend", json!({"claims": claims}))
            .await;
        assert_eq!(response.expect(200), json!({"done": 2, "stale": [stale]}));

        let response = server
            .post(
                "/v1/inbox/mail/give-back",
                json!({"claims": [items[1]["claim"]]}),
            )
            .await;
        assert_eq!(response.expect(200)["done"], 1);
        let again = claim(&server, "mail", 1).await;
        assert_eq!(again[0]["id"], items[1]["id"]);
        assert_eq!(again[0]["attempt"], 1, "it was not begun");

        let old = server
            .send(server.request("POST", "/v1/inbox/mail/reset"), "")
            .await;
        assert_eq!(old.expect(200), json!({"reset": 0}), "none for 15 minutes");
        let all = json!({"older_than": "0s"});
        let reset = server.post("/v1/inbox/mail/reset", all).await.expect(200);
        assert_eq!(reset, json!({"reset": 3}));
        let response = server
            .post(
                "/v1/inbox/mail/complete",
                json!({"claims": [items[0]["claim"]]}),
            )
            .await;
        assert_eq!(response.expect(200)["stale"], json!([items[0]["claim"]]));
        server.end().await;
    }
}

/// A token for some queues cannot change claims of others: they are returned as stale, and nothing is
/// applied to them. The control is the last line: a token without a prefix can settle them in any queue.
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
            let response = ask(&tokens[0], &path, json!({"claims": [other]})).await;
            assert_eq!(
                response.expect(200),
                json!({"done": 0, "stale": [other]}),
                "{verb}"
            );
        }
        let path = "/v1/inbox/a%2Fmail/complete";
        let response = ask(&tokens[0], path, json!({"claims": [other, own]})).await;
        assert_eq!(response.expect(200), json!({"done": 1, "stale": [other]}));
        assert_eq!(turno.inbox("b/mail").stats().await.unwrap().processing, 1);
        let response = ask(&tokens[1], path, json!({"claims": [other]})).await;
        assert_eq!(response.expect(200), json!({"done": 1, "stale": []}));
        server.end().await;
        store.end().await;
    }
}

/// Each different lease is a call of the store, so their number is limited.
#[tokio::test]
async fn so_many_different_leases_and_no_more() {
    let server = Running::start().await;
    let items: Vec<Value> = (0..20).map(|n| json!({"payload": n})).collect();
    push(&server, "mail", json!(items)).await;
    let items = claim(&server, "mail", 20).await;
    let extend = async |different: usize| {
        let leases = items.iter().enumerate();
        let claims = leases
            .map(|(n, item)| json!({"claim": item["claim"], "lease": format!("{}ms", 1_000_000 + n % different)}));
        let ask = json!({"claims": claims.collect::<Vec<_>>()});
        server.post("/v1/inbox/mail/extend", ask).await
    };
    assert_eq!(extend(10).await.expect(200)["done"], 20);
    let response = extend(11).await.problem(422, "invalid");
    assert_eq!(response["field"], "claims[10].lease");
    server.end().await;
}
