//! Invalid requests: the problem names the field, in both languages; nothing is stored, and the response reveals nothing
//! internal.

mod nowhere;
mod rows;

use http::request::Builder;
use serde_json::{Value, json};
use turno_server::Options;

use self::rows::{BODIES, Body, NAMES, QUERIES, Row, VALUES};
use crate::common::{Running, TestResponse, both};

/// Maximum body size in this test.
const MAX_BODY: usize = 64 * 1024;

/// Internal names of the server and its store.
const INWARD: &[&str] = &[
    "panicked",
    "backtrace",
    ".rs:",
    "/root",
    "/home",
    "/tmp",
    "SQLSTATE",
    "select ",
    "insert into",
    "turno.",
    "turno_",
    "sqlite",
    "postgres",
    "serde",
];

/// Expected problem: status, code, and field.
type Expected<'a> = (u16, &'a str, Option<&'a str>);

/// Sends a request in both languages, and expects the same problem twice.
async fn refused(
    server: &Running,
    request: impl Fn() -> Builder,
    body: impl AsRef<[u8]>,
    expected: Expected<'_>,
    what: &str,
) -> TestResponse {
    let (status, code, field) = expected;
    let send = async |language: &str| {
        let request = request().header("accept-language", language);
        let response = server.send(request, body.as_ref().to_vec()).await;
        assert_eq!(response.status, status, "{what}: {response:?}");
        let problem = response.problem(status, code);
        assert_eq!(
            problem.get("field").and_then(Value::as_str),
            field,
            "{what}: {problem}"
        );
        let text = problem.to_string();
        for word in INWARD {
            assert!(!text.contains(word), "{what}: {word:?} is in {text}");
        }
        assert_eq!(response.headers["content-language"], language);
        assert_eq!(
            problem["request_id"],
            response.headers["x-request-id"].to_str().unwrap()
        );
        (response, problem)
    };
    let (response, english) = send("en").await;
    let (_, spanish) = send("es").await;
    assert_ne!(english["title"], spanish["title"], "{what}");
    assert_ne!(english["detail"], spanish["detail"], "{what}");
    response
}

fn json_request(server: &Running, method: &str, path: &str) -> Builder {
    server
        .request(method, path)
        .header("content-type", "application/json")
}

/// Returns all visible stored state.
async fn stored(server: &Running) -> Vec<Value> {
    let mut seen = Vec::new();
    for path in [
        "/v1/locks",
        "/v1/history",
        "/v1/inbox",
        "/v1/outbox",
        "/v1/once",
    ] {
        seen.push(server.get(path).await.expect(200));
    }
    seen
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused() {
    let options = Options {
        max_body: MAX_BODY,
        ..Options::default()
    };
    for other in both().await {
        let server = Running::on(other.turno.clone(), options.clone()).await;
        let before = stored(&server).await;
        for body in BODIES {
            unreadable(&server, body).await;
        }
        assert_eq!(stored(&server).await, before);
        server.end().await;
        other.end().await;
    }
}

async fn unreadable(server: &Running, route: &Body) {
    let Body {
        method, path, good, ..
    } = *route;
    let request = || json_request(server, method, path);
    let what = |what: &str| format!("{method} {path}: {what}");
    let malformed = (400, "malformed", None);
    for text in ["{", "nonsense", "{\"a\": }", "{'a': 1}", "\u{feff}{}"] {
        refused(server, request, text, malformed, &what(text)).await;
    }
    refused(
        server,
        request,
        format!("{good} {good}"),
        malformed,
        &what("two values"),
    )
    .await;
    refused(
        server,
        request,
        b"{\"a\xff\": 1}",
        malformed,
        &what("no UTF-8"),
    )
    .await;
    for text in ["[]", "[1]", "7", "\"text\"", "true"] {
        refused(server, request, text, (422, "invalid", None), &what(text)).await;
    }

    let large = format!("{good}{}", " ".repeat(MAX_BODY));
    refused(
        server,
        request,
        large,
        (413, "too_large", None),
        &what("large"),
    )
    .await;
    let media = (415, "unsupported_media_type", None);
    let bare = || server.request(method, path);
    refused(server, bare, good, media, &what("no content type")).await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
    ] {
        let request = || bare().header("content-type", kind);
        refused(server, request, good, media, &what(kind)).await;
    }
    if !route.is_optional {
        refused(server, request, "", malformed, &what("empty")).await;
        refused(
            server,
            request,
            "null",
            (422, "invalid", None),
            &what("null"),
        )
        .await;
    }
}

#[tokio::test]
async fn a_body_with_other_fields_than_it_has_is_refused() {
    for server in both().await {
        let before = stored(&server).await;
        for Body {
            method,
            path,
            good,
            required,
            ..
        } in BODIES
        {
            let request = || json_request(&server, method, path);
            let good: Value = serde_json::from_str(good).unwrap();
            let mut body = good.clone();
            body["nonsense"] = json!(1);
            let what = format!("{method} {path}");
            refused(
                &server,
                request,
                body.to_string(),
                (422, "invalid", Some("nonsense")),
                &what,
            )
            .await;
            for field in *required {
                let what = format!("{what} without {field}");
                let expected = (422, "invalid", Some(*field));
                let mut body = good.clone();
                body.as_object_mut().unwrap().remove(*field);
                refused(&server, request, body.to_string(), expected, &what).await;
                for wrong in [json!(null), json!({"a": 1})] {
                    body[field] = wrong;
                    refused(&server, request, body.to_string(), expected, &what).await;
                }
            }
        }
        assert_eq!(stored(&server).await, before);
        server.end().await;
    }
}

#[tokio::test]
async fn invalid_values_are_refused() {
    for server in both().await {
        let before = stored(&server).await;
        for Row {
            method,
            path,
            body,
            field,
        } in VALUES
        {
            let request = || json_request(&server, method, path);
            let what = format!("{method} {path} {body}");
            refused(&server, request, body, (422, "invalid", Some(field)), &what).await;
        }
        for Row {
            method,
            path,
            body,
            field,
        } in NAMES
        {
            for name in ["", "a\nb", "a\u{0}b", "\u{85}", &"x".repeat(256)] {
                let quoted = serde_json::to_string(name).unwrap();
                let body = body.replace("\"NAME\"", &quoted);
                let what = format!("{method} {path} {body}");
                let request = || json_request(&server, method, path);
                refused(&server, request, body, (422, "invalid", Some(field)), &what).await;
            }
        }
        assert_eq!(stored(&server).await, before);
        server.end().await;
    }
}

#[tokio::test]
async fn an_invalid_path_or_query_is_refused() {
    for server in both().await {
        let before = stored(&server).await;
        for Row {
            method,
            path,
            body,
            field,
        } in QUERIES
        {
            let path = &path.replace("LONG", &"x".repeat(256));
            let request = || match body.is_empty() {
                true => server.request(method, path),
                false => json_request(&server, method, path),
            };
            let what = format!("{method} {path}");
            refused(&server, request, body, (422, "invalid", Some(field)), &what).await;
        }
        // Invalid percent-encoding, or bytes that are not UTF-8.
        for (method, path) in [
            ("GET", "/v1/locks/%FF"),
            ("GET", "/v1/locks/100%"),
            ("GET", "/v1/locks/%zz"),
            ("GET", "/v1/locks/a%C3"),
            ("DELETE", "/v1/leases/%FF@1"),
            ("DELETE", "/v1/once/%FF@1"),
            ("GET", "/v1/once-keys/%FF"),
            ("GET", "/v1/inbox/%FF"),
            ("GET", "/v1/inbox/%FF/items"),
            ("GET", "/v1/inbox/%/items"),
            ("GET", "/v1/locks?prefix=%FF"),
            ("GET", "/v1/inbox?prefix=%zz"),
            ("GET", "/v1/once?after=%"),
        ] {
            let request = || server.request(method, path);
            refused(&server, request, "", (400, "malformed", None), path).await;
        }
        assert_eq!(stored(&server).await, before);
        server.end().await;
    }
}
