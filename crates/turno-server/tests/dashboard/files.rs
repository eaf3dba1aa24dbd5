//! How the page is served.

use turno_server::{Admission, Options};

use crate::common::Running;

#[tokio::test]
async fn the_page_needs_no_token_and_loads_nothing_foreign() {
    let options = Options {
        admission: Admission::Token,
        ..Options::default()
    };
    let server = Running::start_with(options).await;
    let response = server.get("/").await;
    assert_eq!(response.status, 200);
    let policy = response.headers["content-security-policy"]
        .to_str()
        .unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(rule), "{rule} in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(response.headers["x-content-type-options"], "nosniff");
    assert_eq!(response.headers["referrer-policy"], "no-referrer");
    assert!(!response.headers.contains_key("set-cookie"));

    // Every file that the page refers to exists, and is requested again only if it has changed.
    let page = String::from_utf8(response.body.to_vec()).unwrap();
    let named = page
        .split('"')
        .filter(|word| word.starts_with("dashboard/"));
    for name in named.chain(["dashboard/es.js"]) {
        let path = format!("/{name}");
        let response = server.get(&path).await;
        assert_eq!(response.status, 200, "{name}");
        assert!(response.headers.contains_key("content-security-policy"));
        let again = server
            .request("GET", &path)
            .header("if-none-match", &response.headers["etag"]);
        let again = server.send(again, "").await;
        assert_eq!(
            (again.status.as_u16(), again.body.len()),
            (304, 0),
            "{name}"
        );
        let other = server
            .request("GET", &path)
            .header("if-none-match", "\"other\"");
        assert_eq!(server.send(other, "").await.status, 200);
    }
    server
        .get("/dashboard/nothing.js")
        .await
        .problem(404, "not_found");
    server
        .get("/dashboard/..%2Findex.html")
        .await
        .problem(404, "not_found");
    server.get("/v1/whoami").await.problem(401, "unauthorized");
    server.end().await;
}
