//! Sweep and doctor over HTTP.

use serde_json::json;

use crate::common::both;

#[tokio::test]
async fn a_person_sweeps() {
    for server in both().await {
        let item = json!({"items": [{"payload": 1}]});
        server.post("/v1/inbox/mail", item).await.expect(201);
        let claimed = server
            .post("/v1/inbox/mail/claim", json!({"worker": "w"}))
            .await
            .expect(200);
        let claims = json!({"claims": [claimed["items"][0]["claim"]]});
        server
            .post("/v1/inbox/mail/complete", claims)
            .await
            .expect(200);
        let nothing = server.send(server.request("POST", "/v1/sweep"), "").await;
        assert_eq!(nothing.expect(200)["completed"], 0);
        let all = json!({"keep_completed": "0s"});
        let swept = server.post("/v1/sweep", all).await.expect(200);
        assert!(swept["completed"].as_u64().unwrap() > 0, "{swept}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_store_is_examined() {
    for server in both().await {
        let response = server.get("/v1/doctor").await.expect(200);
        let findings = response["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["check"] == "schema"));
        assert!(["sqlite", "postgres"].contains(&response["store"].as_str().unwrap()));
        server.end().await;
    }
}
