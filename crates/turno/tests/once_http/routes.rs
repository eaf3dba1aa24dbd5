//! A policy per route.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::{Router, routing};
use tower::ServiceExt;
use turno::Turno;
use turno::once::http::{KeyFrom, OnceLayer, Policy, Routes};

use crate::kit::{Site, TestResponse, post, run_number};

#[tokio::test]
async fn each_route_has_its_policy_and_the_others_pass() {
    let routes = Routes::new()
        .add("/pagos/{id}", Policy::new("pagos").methods([Method::POST]))
        .unwrap()
        .add(
            "/pagos/{id}",
            Policy::new("cambios")
                .methods([Method::PATCH])
                .key(KeyFrom::Content)
                .no_principal(),
        )
        .unwrap()
        .add("/v1/{*rest}", Policy::new("v1"))
        .unwrap();
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let layer = OnceLayer::routed(turno.clone(), routes);
    let site = Site::with(layer, turno, run_number);
    let send = async |method: Method, uri: &str| {
        let request = post("77").method(method).uri(uri);
        site.send(request.body(Body::empty()).unwrap()).await
    };
    send(Method::POST, "/pagos/1").await.assert_fresh("run 1");
    send(Method::POST, "/pagos/2").await.assert_fresh("run 2");
    send(Method::POST, "/pagos/1")
        .await
        .assert_replayed("run 1");
    send(Method::PATCH, "/pagos/1").await.assert_fresh("run 3");
    send(Method::PATCH, "/pagos/1")
        .await
        .assert_replayed("run 3");
    send(Method::POST, "/v1/a/b").await.assert_fresh("run 4");
    send(Method::POST, "/v1/a/b").await.assert_replayed("run 4");
    for run in 5..7 {
        let response = send(Method::POST, "/other").await;
        response.assert_fresh(&format!("run {run}"));
    }
    let request = Request::patch("/pagos/1").body(Body::empty()).unwrap();
    let response = site.send(request).await;
    assert!(
        !response.is_replayed(),
        "another content type is another content"
    );
}

/// Around nested routers, the layer sees whole paths: a nested router gets only the part after its prefix.
#[tokio::test]
async fn nested_routers_are_distinguished_from_outside() {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let nested = |name: &'static str| {
        Router::new().route("/pagos", routing::post(move || std::future::ready(name)))
    };
    let router = Router::new()
        .nest("/a", nested("a"))
        .nest("/b", nested("b"))
        .layer(OnceLayer::new(turno, Policy::new("pagos")));
    for is_replayed in [false, true] {
        for (uri, answer) in [("/a/pagos", "a"), ("/b/pagos", "b")] {
            let request = post("77").uri(uri).body(Body::empty()).unwrap();
            let response = TestResponse::from(router.clone().oneshot(request).await.unwrap()).await;
            assert_eq!(
                (response.text(), response.is_replayed()),
                (answer, is_replayed)
            );
        }
    }
}

#[test]
fn ambiguous_routes_are_refused() {
    let routes = || {
        Routes::new()
            .add("/pagos/{id}", Policy::new("pagos"))
            .unwrap()
    };
    let field = |path: &str, name: &str| {
        let error = routes().add(path, Policy::new(name)).unwrap_err();
        error.field().map(str::to_owned)
    };
    assert_eq!(field("/pagos/{id}", "two"), Some("methods".to_owned()));
    assert_eq!(field("/pagos/{other}", "two"), Some("path".to_owned()));
    assert_eq!(field("/{", "two"), Some("path".to_owned()));
    assert_eq!(field("/two", ""), Some("name".to_owned()));
    assert_eq!(field("/two", &"x".repeat(101)), Some("name".to_owned()));
}

/// A path that a service may treat as equal to that of a route does not pass: it would be processed without being recognized.
#[tokio::test]
async fn a_path_that_is_almost_that_of_a_route_is_refused() {
    const NEAR: [&str; 7] = [
        "/pagos/",
        "/PAGOS",
        "//pagos",
        "/./pagos",
        "/%70agos",
        "/pagos;v=1",
        "/v1/../pagos",
    ];
    let site = async |policy: Policy| {
        let routes = Routes::new().add("/pagos", policy).unwrap();
        let turno = Turno::connect("sqlite::memory:").await.unwrap();
        let layer = OnceLayer::routed(turno.clone(), routes);
        Site::with(layer, turno, run_number)
    };
    let closed = site(Policy::new("pagos")).await;
    for near in NEAR {
        let request = post("77").uri(near).body(Body::empty()).unwrap();
        let response = closed.send(request).await;
        assert_eq!(
            response.problem(),
            crate::kit::problem(400, "unidentified"),
            "{near}"
        );
        assert_eq!(response.json()["field"], "path");
    }
    assert_eq!(closed.runs(), 0);
    // Other methods and other paths are not affected.
    for (method, uri) in [(Method::GET, "/pagos/"), (Method::POST, "/pagos/1")] {
        let request = post("77").method(method).uri(uri);
        let response = closed.send(request.body(Body::empty()).unwrap()).await;
        assert!(response.status.is_success(), "{response:?}");
    }
    let request = || post("77").body(Body::empty()).unwrap();
    closed.send(request()).await.assert_fresh("run 3");
    closed.send(request()).await.assert_replayed("run 3");
    // The control: if it passes, it is processed each time.
    let open = site(Policy::new("pagos").unidentified(turno::once::http::Fails::Open)).await;
    for run in 1..=2 {
        let request = post("77").uri("/pagos/").body(Body::empty()).unwrap();
        open.send(request).await.assert_fresh(&format!("run {run}"));
    }
}

/// A problem contains the request's key in the store, by which an operator finds it.
#[tokio::test]
async fn a_problem_names_the_key_in_the_store() {
    let site = Site::new(Policy::new("pagos"), run_number).await;
    let request = |body: &'static str| post("77").body(Body::from(body)).unwrap();
    site.send(request("1")).await.assert_fresh("run 1");
    let response = site.send(request("2")).await;
    assert_eq!(response.problem(), crate::kit::problem(422, "mismatch"));
    let known = site.await_state(turno::once::OnceState::Done).await;
    assert_eq!(response.json()["key"], known.key.as_str());
    let (head, body) = request("3").into_parts();
    let body = axum::body::to_bytes(body, 10).await.unwrap();
    let key = Policy::new("pagos").store_key(&turno::once::Identities::new(), &head, &body);
    assert_eq!(key.unwrap(), known.key);
}
