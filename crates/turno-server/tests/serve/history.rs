//! `GET /v1/history`: operator actions with user and reason, and which callers can see them.

use serde_json::{Value, json};
use turno::access::Role;

use crate::auth_client::{AuthClient, guarded};
use crate::common::{Running, both};
use crate::outbox::refuse;

/// Creates a failed item in a queue.
async fn failed(client: &AuthClient<'_>, queue: &str) {
    let queue = format!("/v1/inbox/{}", queue.replace('/', "%2F"));
    let item = json!({"items": [{"payload": 1}]});
    client.post(&queue, item).await.expect(201);
    let claim = json!({"worker": "w"});
    let claimed = client.post(&format!("{queue}/claim"), claim).await;
    let claimed = claimed.expect(200);
    let failed = json!({"claims": [{"claim": claimed["items"][0]["claim"], "final": true}]});
    let response = client.post(&format!("{queue}/fail"), failed).await;
    response.expect(200);
}

/// Creates a dead event.
async fn dead(server: &Running, client: &AuthClient<'_>) {
    let event = json!({"events": [{"type": "t", "payload": 1}]});
    client.post("/v1/outbox", event).await.expect(201);
    refuse(server).await;
}

/// Creates a completed once key.
async fn done(client: &AuthClient<'_>, key: &str) {
    let begun = client.post("/v1/once", json!({"key": key})).await;
    let token = begun.expect(201)["token"].clone();
    let claim = format!("/v1/once/{}@{token}", key.replace('/', "%2F"));
    client.json("PUT", &claim, json!({})).await.expect(204);
}

/// Returns component, event, resource, count, user and reason of each entry, newest first.
async fn lines(client: &AuthClient<'_>, query: &str) -> Vec<Value> {
    let response = client.get(&format!("/v1/history{query}")).await.expect(200);
    let entries = response["history"].as_array().unwrap();
    let line = |entry: &Value| {
        assert_eq!(entry["token"], Value::Null);
        json!([
            entry["part"],
            entry["event"],
            entry["resource"],
            entry["count"],
            entry["actor"],
            entry["reason"]
        ])
    };
    entries.iter().map(line).collect()
}

#[tokio::test]
async fn operator_actions_are_recorded_with_user_and_reason() {
    for server in both().await {
        let client = AuthClient {
            server: &server,
            token: None,
        };
        failed(&client, "mail").await;
        dead(&server, &client).await;
        done(&client, "mail").await;
        let because = json!({"user": "ana", "reason": "it is back"});
        for path in ["/v1/inbox/mail/requeue", "/v1/outbox/requeue"] {
            let response = client.post(path, because.clone()).await;
            assert_eq!(response.expect(200), json!({"requeued": 1}), "{path}");
            // A second time, there is nothing to do, and nothing to record.
            let response = client.post(path, because.clone()).await;
            assert_eq!(response.expect(200), json!({"requeued": 0}), "{path}");
        }
        let forget = "/v1/once-keys/mail?user=ana&reason=it+was+not";
        client.delete(forget).await.expect(200);
        let all = [
            json!(["once", "forgotten", "mail", 1, "ana", "it was not"]),
            json!(["outbox", "requeued", "", 1, "ana", "it is back"]),
            json!(["inbox", "requeued", "mail", 1, "ana", "it is back"]),
        ];
        assert_eq!(lines(&client, "").await, all);
        assert_eq!(lines(&client, "?part=outbox").await, all[1..2]);
        assert_eq!(lines(&client, "?resource=mail&part=inbox").await, all[2..]);
        assert_eq!(lines(&client, "?prefix=ma&limit=1").await, all[..1]);
        drop(client);
        server.end().await;
    }
}

/// Without a user in the request, the access token is the user. Each caller sees the entries of its names; the outbox has none.
#[tokio::test]
async fn a_token_sees_the_actions_on_its_names() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        for key in ["a/mail", "outbox", "$outbox/x"] {
            done(&boss, key).await;
            let path = format!("/v1/once-keys/{}", key.replace('/', "%2F"));
            boss.delete(&path).await.expect(200);
            dead(&server, &boss).await;
            boss.post("/v1/outbox/requeue", json!({})).await.expect(200);
        }
        failed(&boss, "a/mail").await;
        let requeue = boss.post("/v1/inbox/a%2Fmail/requeue", json!({}));
        requeue.await.expect(200);
        let actor = "admin of \"\"";
        let all = lines(&boss, "").await;
        assert_eq!(all.len(), 7, "{all:?}");
        assert!(all.iter().all(|line| line[4] == actor), "{all:?}");
        for (prefix, many) in [("a/", 2), ("outbox", 1), ("$outbox", 1), ("b/", 0)] {
            let scoped = AuthClient::new(&server, Role::Read, prefix).await;
            let mut entries = lines(&scoped, "").await;
            assert_eq!(entries.len(), many, "{prefix}: {entries:?}");
            for query in ["?part=outbox", "?part=outbox&after=9000000000000"] {
                assert_eq!(lines(&scoped, query).await, [Value::Null; 0], "{prefix}");
            }
            entries.extend(lines(&scoped, &format!("?resource={prefix}")).await);
            assert!(
                entries.iter().all(|line| line[0] != "outbox"),
                "{entries:?}"
            );
            let nameless = scoped.get("/v1/history?resource=").await;
            nameless.expect(403);
        }
        drop(boss);
        server.end().await;
    }
}
