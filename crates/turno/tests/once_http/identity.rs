//! Which requests are the same, and which only look so.

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Builder;
use axum::http::{HeaderName, StatusCode, header};
use turno::Turno;
use turno::once::Identities;
use turno::once::http::{KeyFrom, OnceLayer, Policy};

use crate::kit::{Site, TestResponse, paying, post, problem, run_number};
use crate::on_each_store;

on_each_store! {
    other_content_under_one_key_is_refused => other_content_under_one_key_is_refused;
    a_principal_has_at_most_its_quota_of_live_keys => a_principal_has_at_most_its_quota_of_live_keys;
}

async fn other_content_under_one_key_is_refused(url: &str) {
    let site = Site::on(url, Policy::new("pagos"), run_number).await;
    site.send(paying("77")).await.assert_fresh("run 1");
    let other = || post("77").body(Body::from(r#"{"amount": 101}"#)).unwrap();
    for _ in 0..2 {
        let response = site.send(other()).await;
        assert_eq!(response.problem(), problem(422, "mismatch"));
    }
    assert_eq!((site.runs(), site.counts().mismatch), (1, 2));
    site.send(paying("77")).await.assert_replayed("run 1");
}

async fn a_principal_has_at_most_its_quota_of_live_keys(url: &str) {
    let site = Site::on(url, Policy::new("pagos").quota(2), run_number).await;
    let of = |who: &str, key: &str| {
        let request = post(key).header("authorization", who);
        request.body(Body::empty()).unwrap()
    };
    for key in ["1", "2"] {
        assert_eq!(site.send(of("ana", key)).await.status, StatusCode::OK);
    }
    let response = site.send(of("ana", "3")).await;
    assert_eq!(response.problem(), problem(429, "over_quota"));
    assert!(response.headers.contains_key("retry-after"));
    assert!(site.send(of("ana", "1")).await.is_replayed());
    assert_eq!(site.send(of("eva", "3")).await.status, StatusCode::OK);
    assert_eq!((site.runs(), site.counts().over_quota), (3, 1));
}

/// Checks that all of these requests run, with one key and one body.
async fn all_run(policy: Policy, requests: Vec<Builder>) {
    for key in [
        KeyFrom::Content,
        KeyFrom::Header("idempotency-key".parse().unwrap()),
    ] {
        let site = Site::new(policy.clone().key(key), run_number).await;
        let request = |builder: &Builder| {
            let headers = builder.headers_ref().unwrap().clone();
            let (method, uri) = (builder.method_ref().unwrap(), builder.uri_ref().unwrap());
            let mut request = Request::builder().method(method).uri(uri);
            request.headers_mut().unwrap().extend(headers);
            let request = request
                .header("idempotency-key", "77")
                .header("content-type", "application/json");
            request.body(Body::from(r#"{"amount": 100}"#)).unwrap()
        };
        for (place, builder) in requests.iter().enumerate() {
            let response = site.send(request(builder)).await;
            response.assert_fresh(&format!("run {}", place + 1));
        }
        for (place, builder) in requests.iter().enumerate() {
            let response = site.send(request(builder)).await;
            response.assert_replayed(&format!("run {}", place + 1));
        }
    }
}

#[tokio::test]
async fn principals_do_not_meet() {
    let of = |who| Request::post("/pagos").header("authorization", who);
    all_run(
        Policy::new("pagos"),
        vec![of("Bearer ana"), of("Bearer eva")],
    )
    .await;
}

#[tokio::test]
async fn tenants_do_not_meet() {
    let tenant = HeaderName::from_static("x-tenant");
    let of = |which| Request::post("/pagos").header("x-tenant", which);
    let policy = Policy::new("pagos").no_principal().tenant([tenant]);
    all_run(policy, vec![of("acme"), of("other")]).await;
}

/// Not even if the tenant of one has the name of the other's principal.
#[tokio::test]
async fn tenants_and_principals_do_not_meet() {
    let policy = Policy::new("pagos")
        .tenant([HeaderName::from_static("x-who")])
        .principal([HeaderName::from_static("x-whose")]);
    let of = |who, whose| {
        let request = Request::post("/pagos").header("x-who", who);
        request.header("x-whose", whose)
    };
    all_run(policy, vec![of("acme", "other"), of("other", "acme")]).await;
}

#[tokio::test]
async fn methods_and_paths_do_not_meet() {
    let requests = vec![
        Request::post("/pagos"),
        Request::patch("/pagos"),
        Request::post("/pagos/"),
        Request::post("/pagos/1"),
        Request::post("/Pagos"),
    ];
    all_run(Policy::new("pagos").no_principal(), requests).await;
}

#[tokio::test]
async fn a_principal_can_be_found_by_other_means() {
    #[derive(Clone)]
    struct User(&'static str);
    let policy = Policy::new("pagos")
        .principal_from(|head| head.extensions.get::<User>().map(|user| user.0.to_owned()));
    let site = Site::new(policy, run_number).await;
    let of = |user, token| {
        let request = post("77")
            .header("authorization", token)
            .extension(User(user));
        request.body(Body::empty()).unwrap()
    };
    site.send(of("ana", "old")).await.assert_fresh("run 1");
    site.send(of("ana", "new")).await.assert_replayed("run 1");
    site.send(of("eva", "old")).await.assert_fresh("run 2");
}

async fn content(site: &Site, kind: &str, body: &'static str) -> TestResponse {
    let request = Request::post("/pagos").header(header::CONTENT_TYPE, kind);
    site.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn content_is_what_it_says_and_not_how_it_is_written() {
    const JSON: &str = "application/json";
    let site = Site::new(
        Policy::new("afore").key(KeyFrom::Content).no_principal(),
        run_number,
    )
    .await;
    let first = content(&site, JSON, r#"{"a": 1, "b": [true, "ñ"]}"#).await;
    first.assert_fresh("run 1");
    for (kind, same) in [
        (JSON, r#"{"b":[true,"ñ"],"a":1}"#),
        (JSON, "{\n\t\"b\": [true, \"\\u00f1\"],\r\n \"a\": 1 }"),
        (
            "Application/JSON; charset=utf-8",
            r#"{"a": 1, "b": [true, "ñ"]}"#,
        ),
    ] {
        content(&site, kind, same).await.assert_replayed("run 1");
    }
    for (kind, other) in [
        (JSON, r#"{"a": 2, "b": [true, "ñ"]}"#),
        (JSON, r#"{"a": 1.0, "b": [true, "ñ"]}"#),
        (JSON, r#"{"a": "1", "b": [true, "ñ"]}"#),
        (JSON, r#"{"a": 1, "b": ["ñ", true]}"#),
        (JSON, r#"{"a": 1, "b": [true, "ñ"], "c": null}"#),
        ("text/plain", r#"{"a": 1, "b": [true, "ñ"]}"#),
        ("text/plain", r#"{"b":[true,"ñ"],"a":1}"#),
    ] {
        let response = content(&site, kind, other).await;
        assert!(!response.is_replayed(), "{other}");
    }
    assert_eq!(site.runs(), 8);
}

#[tokio::test]
async fn a_query_is_content() {
    let site = Site::new(
        Policy::new("pagos").key(KeyFrom::Content).no_principal(),
        run_number,
    )
    .await;
    let of = |uri| Request::post(uri).body(Body::empty()).unwrap();
    site.send(of("/pagos?a=1&b=2")).await.assert_fresh("run 1");
    site.send(of("/pagos?b=2&a=1"))
        .await
        .assert_replayed("run 1");
    site.send(of("/pagos?a=1&b=3")).await.assert_fresh("run 2");
}

#[tokio::test]
async fn a_key_is_the_same_with_its_quotation_marks() {
    let site = Site::new(Policy::new("pagos"), run_number).await;
    site.send(paying("77")).await.assert_fresh("run 1");
    site.send(paying("\"77\"")).await.assert_replayed("run 1");
}

/// A reader of the store cannot verify a guessed key, and with another secret no request is recognized.
#[tokio::test]
async fn a_secret_separates_identities() {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let of = |secret: &str| {
        let layer = OnceLayer::new(turno.clone(), Policy::new("pagos"))
            .identities(Identities::with_secret(secret).unwrap());
        Site::with(layer, turno.clone(), run_number)
    };
    let (one, same, other) = (
        of("a long and random secret"),
        of("a long and random secret"),
        of("another, just as long"),
    );
    one.send(paying("77")).await.assert_fresh("run 1");
    same.send(paying("77")).await.assert_replayed("run 1");
    other.send(paying("77")).await.assert_fresh("run 1");
}
