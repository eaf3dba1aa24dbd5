//! Locks over HTTP.

use serde_json::json;

use crate::common::Running;

#[tokio::test]
async fn a_lock_is_taken_seen_renewed_and_given_back() {
    for server in [Running::start().await, Running::start_postgres().await] {
        let ask = json!({"resource": "PRESTAMO/123", "owner": "a", "ttl": "5m", "user": "1", "description": "Registro de pago"});
        let lease = server.post("/v1/locks", ask.clone()).await.expect(201);
        let id = lease["id"].as_str().unwrap().replace('/', "%2F");
        assert_eq!(server.post("/v1/locks", ask).await.expect(200)["holds"], 2);

        let busy = server
            .post("/v1/locks", json!({"resource": "PRESTAMO/123"}))
            .await
            .problem(409, "busy");
        assert_eq!(busy["holder"]["user"], "1");
        assert!(busy["retry_after_ms"].as_u64().unwrap() > 280_000);

        let status = server.get("/v1/locks/PRESTAMO/123").await.expect(200);
        assert_eq!(status["holder"]["token"], lease["token"]);
        assert_eq!(
            status["holder"]["host"],
            json!(null),
            "not the server's own"
        );
        assert_eq!(
            server.get("/v1/locks").await.expect(200)["locks"][0]["owner"],
            "a"
        );

        let path = format!("/v1/leases/{id}");
        let renewed = server.put(&path, json!({"ttl": "10m"})).await.expect(200);
        assert!(renewed["remaining_ms"].as_u64().unwrap() > 590_000);
        assert_eq!(server.delete(&path).await.headers["turno-holds"], "1");
        server.delete(&path).await.expect(204);
        server.delete(&path).await.problem(410, "lost");
        let history = server
            .get("/v1/history?resource=PRESTAMO/123")
            .await
            .expect(200);
        assert_eq!(history["history"][1]["event"], "released");
        server.end().await;
    }
}

#[tokio::test]
async fn a_busy_lock_is_reported_in_spanish() {
    let server = Running::start().await;
    let ask = json!({"resource": "PRESTAMO/123", "ttl": "285s", "user": "1"});
    server.post("/v1/locks", ask).await.expect(201);
    let request = server
        .request("POST", "/v1/locks")
        .header("content-type", "application/json")
        .header("accept-language", "es-MX, en;q=0.5");
    let response = server
        .send(request, r#"{"resource": "PRESTAMO/123"}"#)
        .await;
    assert_eq!(
        response.problem(409, "busy")["detail"],
        "El recurso está bloqueado por otra operación. Tiempo restante: 285 segundos. Usuario: 1"
    );
    assert_eq!(response.headers["content-language"], "es");
    server.end().await;
}
