//! Leases over HTTP.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::both;

#[tokio::test]
async fn a_renewal_says_what_has_changed() {
    for server in both().await {
        let ask = json!({"resource": "PRESTAMO/123", "owner": "a"});
        let lease = server.post("/v1/locks", ask).await.expect(201);
        let path = format!("/v1/leases/{}", lease["id"].as_str().unwrap());
        // The body is optional. Default: 30 seconds.
        let renewed = server
            .send(server.request("PUT", &path), "")
            .await
            .expect(200);
        assert_eq!(renewed["id"], lease["id"]);
        assert_eq!(renewed["token"], lease["token"]);
        for unchanged in ["owner", "holds", "acquired_at"] {
            assert_eq!(renewed.get(unchanged), None, "{unchanged}");
        }
        server.put(&path, Value::Null).await.expect(200);
        server.end().await;
    }
}

#[tokio::test]
async fn a_repeated_release_gives_back_nothing_more() {
    for server in both().await {
        let ask = json!({"resource": "r", "owner": "a"});
        server.post("/v1/locks", ask.clone()).await.expect(201);
        server.post("/v1/locks", ask.clone()).await.expect(200);
        let lease = server.post("/v1/locks", ask).await.expect(200);
        let (id, request) = (lease["id"].as_str().unwrap(), Uuid::now_v7());
        let path = format!("/v1/leases/{id}?request={request}");
        for _ in 0..2 {
            let response = server.delete(&path).await;
            response.expect(204);
            assert_eq!(response.headers["turno-holds"], "2");
        }
        server.end().await;
    }
}

#[tokio::test]
async fn a_lock_is_broken_in_the_name_of_a_user() {
    for server in both().await {
        for (user, actor) in [("", "anonymous"), ("&user=Rosa", "Rosa")] {
            let ask = json!({"resource": "r"});
            let lease = server.post("/v1/locks", ask).await.expect(201);
            let path = format!("/v1/locks/r?reason=it+hangs&token={}{user}", lease["token"]);
            server.delete(&path).await.expect(204);
            server.delete(&path).await.problem(409, "not_held");
            let history = server.get("/v1/history?resource=r").await.expect(200);
            let newest = &history["history"][0];
            assert_eq!(
                (&newest["event"], &newest["actor"]),
                (&json!("broken"), &json!(actor))
            );
        }
        server.end().await;
    }
}
