//! Unknown paths, and methods that are not allowed.

use super::refused;
use crate::common::Running;

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = Running::start().await;
    for path in [
        "/v1",
        "/v2/locks",
        "/v1/lock",
        "/v1/locks/",
        "/v1/inbox/",
        "/v1/inbox/q/nonsense",
        "/v1/inbox/a/b/claim",
        "/v1/outbox/nonsense",
        "/nonsense",
        "//",
        "/v1/outbox/events/",
        "/..%2f..%2fetc/passwd",
    ] {
        let request = || server.request("GET", path);
        refused(&server, request, "", (404, "not_found", None), path).await;
    }
    for (method, path, allowed) in [
        ("DELETE", "/v1/locks", &["GET", "POST"][..]),
        ("GET", "/v1/lock-sets", &["POST"]),
        ("POST", "/v1/locks/r", &["DELETE", "GET"]),
        ("POST", "/v1/leases/r@1", &["DELETE", "PUT"]),
        ("PUT", "/v1/history", &["GET"]),
        ("DELETE", "/v1/inbox/q", &["GET", "POST"]),
        ("GET", "/v1/inbox/q/claim", &["POST"]),
        ("PUT", "/v1/inbox/q/complete", &["POST"]),
        ("POST", "/v1/inbox/q/items", &["GET"]),
        ("PATCH", "/v1/outbox", &["GET", "POST"]),
        ("GET", "/v1/outbox/requeue", &["POST"]),
        ("DELETE", "/v1/once", &["GET", "POST"]),
        ("GET", "/v1/once/k@1", &["DELETE", "PATCH", "PUT"]),
        ("PATCH", "/v1/once-keys/k", &["DELETE", "GET", "PUT"]),
        ("GET", "/v1/sweep", &["POST"]),
        ("POST", "/v1/doctor", &["GET"]),
        ("NONSENSE", "/v1/locks", &["GET", "POST"]),
    ] {
        let request = || server.request(method, path);
        let expected = (405, "method_not_allowed", None);
        let response = refused(&server, request, "", expected, &format!("{method} {path}")).await;
        let allow = response.headers["allow"].to_str().unwrap();
        let mut methods: Vec<&str> = allow
            .split(',')
            .filter(|method| *method != "HEAD")
            .collect();
        methods.sort_unstable();
        assert_eq!(methods, allowed, "{method} {path}");
    }
    server.end().await;
}
