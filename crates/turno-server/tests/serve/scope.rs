//! The prefix of a token: attempts on names of others change nothing.

use serde_json::{Value, json};
use turno::access::Role;

use crate::auth_client::{AuthClient, guarded};

#[tokio::test]
async fn a_claim_of_another_queue_is_stale() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        let scoped = AuthClient::new(&server, Role::Admin, "a/").await;
        boss.post("/v1/inbox/b%2Fq", json!({"items": [{"payload": 1}]}))
            .await
            .expect(201);
        let claimed = boss
            .post(
                "/v1/inbox/b%2Fq/claim",
                json!({"worker": "w", "lease": "1h"}),
            )
            .await
            .expect(200);
        let claim = &claimed["items"][0]["claim"];
        let before = boss.get("/v1/inbox/b%2Fq/items?state=processing").await;
        let before = before.expect(200);
        assert_eq!(before["items"].as_array().unwrap().len(), 1);
        let ask = json!({"claims": [claim]});
        for verb in ["complete", "fail", "extend", "give-back"] {
            let response = scoped
                .post(&format!("/v1/inbox/a%2Fq/{verb}"), ask.clone())
                .await
                .expect(200);
            assert_eq!(response, json!({"done": 0, "stale": [claim]}), "{verb}");
            let now = boss.get("/v1/inbox/b%2Fq/items?state=processing").await;
            assert_eq!(now.expect(200), before, "{verb}");
        }
        // The control: the claim itself is valid.
        let response = boss.post("/v1/inbox/b%2Fq/complete", ask).await.expect(200);
        assert_eq!(response["done"], 1);
        drop((boss, scoped));
        server.end().await;
    }
}

#[tokio::test]
async fn what_is_partly_out_of_scope_is_refused_as_a_whole() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        let scoped = AuthClient::new(&server, Role::Operate, "a/").await;
        for resources in [json!(["a/x", "b/y"]), json!(["b/y", "a/x"])] {
            let ask = json!({"resources": resources});
            let response = scoped.post("/v1/lock-sets", ask).await;
            response.problem(403, "out_of_scope");
        }
        let held = boss.get("/v1/locks").await.expect(200);
        assert_eq!(held["locks"], json!([]));
        let events = json!([{"type": "a/x", "payload": 1}, {"type": "b/y", "payload": 1}]);
        let response = scoped.post("/v1/outbox", json!({"events": events})).await;
        response.problem(403, "out_of_scope");
        assert_eq!(boss.get("/v1/outbox").await.expect(200)["pending"], 0);
        // A token cannot use up the quota of others.
        let quota = |scope| json!({"key": "a/k", "quota": {"scope": scope, "most": 1}});
        let response = scoped.post("/v1/once", quota("b/k")).await;
        response.problem(403, "out_of_scope");
        scoped.post("/v1/once", quota("a/k")).await.expect(201);
        drop((boss, scoped));
        server.end().await;
    }
}

#[tokio::test]
async fn what_others_hold_stays_held() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        let scoped = AuthClient::new(&server, Role::Admin, "a/").await;
        let lease = boss
            .post("/v1/locks", json!({"resource": "b/x", "ttl": "1h"}))
            .await
            .expect(201);
        let token = &lease["token"];
        let run = boss
            .post("/v1/once", json!({"key": "b/x", "lease": "1h"}))
            .await
            .expect(201);
        let run = format!("/v1/once/b%2Fx@{}", run["token"]);
        let lease = format!("/v1/leases/b%2Fx@{token}");
        for (method, path) in [
            ("PUT", lease.as_str()),
            ("DELETE", &lease),
            (
                "DELETE",
                &format!("/v1/locks/b/x?token={token}&reason=mine"),
            ),
            ("PUT", &run),
            ("PATCH", &run),
            ("DELETE", &run),
            ("DELETE", "/v1/once-keys/b/x"),
        ] {
            let response = match method {
                "DELETE" => scoped.delete(path).await,
                _ => scoped.json(method, path, json!({})).await,
            };
            response.problem(403, "out_of_scope");
        }
        let status = boss.get("/v1/locks/b/x").await.expect(200);
        assert_eq!(status["holder"]["token"], *token);
        let known = boss.get("/v1/once-keys/b/x").await.expect(200);
        assert_eq!(known["state"], "in_flight");
        // The control: the ids were valid.
        boss.delete(&lease).await.expect(204);
        boss.delete(&run).await.expect(204);
        drop((boss, scoped));
        server.end().await;
    }
}

/// Names that only resemble those of the prefix, by an underscore, a percent sign, a dot or an accent.
#[tokio::test]
async fn a_prefix_is_taken_letter_by_letter() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        for (prefix, own, others) in [
            ("a_%/", "a_%/x", ["abc/x", "a__/x", "a_%x"]),
            ("a/", "a/../b/x", ["b/x", "A/x", "a"]),
            ("ñandú/", "ñandú/x", ["ñandu/x", "nandú/x", "ñand"]),
            ("日本/", "日本/x", ["日/x", "日木/x", "日本"]),
            (r"a\", r"a\x", ["ax", "a/x", r"\a\x"]),
        ] {
            let scoped = AuthClient::new(&server, Role::Admin, prefix).await;
            for name in others.iter().chain([&own]) {
                take(&boss, name).await;
            }
            assert_eq!(seen(&scoped).await, [own], "{prefix}");
            scoped
                .get(&format!("/v1/locks/{}", encoded(own)))
                .await
                .expect(200);
            for name in others {
                let response = scoped.get(&format!("/v1/locks/{}", encoded(name))).await;
                response.problem(403, "out_of_scope");
            }
        }
        drop(boss);
        server.end().await;
    }
}

/// A path is decoded once: encoded characters cannot become a parent segment or bypass the check.
#[tokio::test]
async fn a_path_is_read_once() {
    for server in guarded().await {
        let boss = AuthClient::new(&server, Role::Admin, "").await;
        let scoped = AuthClient::new(&server, Role::Read, "a/").await;
        take(&boss, "b/x").await;
        for path in ["b/x", "%62/x", "b%2Fx", "%62%2f%78", "./a/x", "a", "../b/x"] {
            let response = scoped.get(&format!("/v1/locks/{path}")).await;
            response.problem(403, "out_of_scope");
        }
        // These are names that begin with a/, whatever follows; they are not held.
        for (path, name) in [
            ("a/../b/x", "a/../b/x"),
            ("a%2F..%2Fb%2Fx", "a/../b/x"),
            ("a/%2e%2e/b/x", "a/../b/x"),
            ("a//b/x", "a//b/x"),
            ("a%2F%252e%252e%2Fb", "a/%2e%2e/b"),
        ] {
            let response = scoped.get(&format!("/v1/locks/{path}")).await.expect(200);
            assert_eq!(
                (&response["resource"], &response["locked"]),
                (&json!(name), &json!(false))
            );
        }
        let response = boss.get("/v1/locks/%62%2f%78").await.expect(200);
        assert_eq!(response["locked"], true, "the control: it is b/x");
        drop((boss, scoped));
        server.end().await;
    }
}

async fn take(boss: &AuthClient<'_>, name: &str) {
    let response = boss
        .post("/v1/locks", json!({"resource": name, "owner": "boss"}))
        .await;
    assert!(response.status.is_success(), "{response:?}");
}

/// Returns the locks that a caller sees, in the list and in the history.
async fn seen(client: &AuthClient<'_>) -> Vec<String> {
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|lock| lock["resource"].as_str().unwrap().to_owned())
            .collect()
    };
    let held = names(&client.get("/v1/locks").await.expect(200)["locks"]);
    let history = names(&client.get("/v1/history").await.expect(200)["history"]);
    assert_eq!(held, history);
    held
}

fn encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
