//! A stored answer is replayed.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, Method, StatusCode, header};
use axum::response::IntoResponse;
use std::time::Duration;
use turno::once::http::Policy;

use crate::kit::{Site, paying, post, run_number};
use crate::on_each_store;

on_each_store! {
    a_repeat_is_given_the_answer => a_repeat_is_given_the_answer;
    an_answer_of_another_instance_is_given => an_answer_of_another_instance_is_given;
    bytes_that_are_no_text_come_back_as_they_were => bytes_that_are_no_text_come_back_as_they_were;
}

async fn a_repeat_is_given_the_answer(url: &str) {
    let site = Site::on(url, Policy::new("pagos"), run_number).await;
    site.send(paying("77")).await.assert_fresh("run 1");
    for _ in 0..3 {
        site.send(paying("77")).await.assert_replayed("run 1");
    }
    site.send(paying("78")).await.assert_fresh("run 2");
    assert_eq!(site.runs(), 2);
    let counts = site.counts();
    assert_eq!((counts.fresh, counts.replayed), (2, 3), "{counts:?}");
}

async fn an_answer_of_another_instance_is_given(url: &str) {
    let one = Site::on(url, Policy::new("pagos"), run_number).await;
    let other = Site::on(url, Policy::new("pagos"), run_number).await;
    one.send(paying("77")).await.assert_fresh("run 1");
    other.send(paying("77")).await.assert_replayed("run 1");
    assert_eq!(other.runs(), 0);
}

async fn bytes_that_are_no_text_come_back_as_they_were(url: &str) {
    let bytes: Vec<u8> = (0..=255).collect();
    let answer = bytes.clone();
    let site = Site::on(url, Policy::new("pagos"), move |_, _| {
        let answer = answer.clone();
        async move { ([(header::CONTENT_TYPE, "image/png")], answer) }
    })
    .await;
    for is_replayed in [false, true] {
        let response = site.send(paying("77")).await;
        assert_eq!(
            (response.is_replayed(), &response.body[..]),
            (is_replayed, &bytes[..])
        );
        assert_eq!(response.header("content-type"), Some("image/png"));
    }
}

/// Handler with many headers, some of which are only for its own client.
async fn with_headers(_: u32, _: Request) -> impl IntoResponse {
    let headers = [
        ("content-type", "text/plain"),
        ("location", "/pagos/1"),
        ("etag", "\"1\""),
        ("link", "</a>; rel=next"),
        ("set-cookie", "session=secret"),
        ("x-request-id", "1"),
    ];
    (
        StatusCode::CREATED,
        headers,
        [("link", "</b>; rel=last")],
        "",
    )
}

#[tokio::test]
async fn only_the_headers_that_belong_to_the_content_are_given_again() {
    let site = Site::new(Policy::new("pagos"), with_headers).await;
    let first = site.send(paying("77")).await;
    assert_eq!(first.header("set-cookie"), Some("session=secret"));
    assert_eq!(first.header("x-request-id"), Some("1"));

    let again = site.send(paying("77")).await;
    assert_eq!((again.status, again.text()), (StatusCode::CREATED, ""));
    let mut names: Vec<&str> = again.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "content-length",
            "content-type",
            "etag",
            "idempotency-replayed",
            "link",
            "location"
        ]
    );
    let links = again.headers.get_all("link").iter().count();
    assert_eq!(links, first.headers.get_all("link").iter().count());
}

#[tokio::test]
async fn the_headers_that_a_policy_names_are_given_again() {
    let policy = Policy::new("pagos").headers([HeaderName::from_static("x-request-id")]);
    let site = Site::new(policy, with_headers).await;
    site.send(paying("77")).await;
    let again = site.send(paying("77")).await;
    assert_eq!(again.header("x-request-id"), Some("1"));
    assert_eq!(again.header("location"), None);
}

#[tokio::test]
async fn a_refusal_of_the_handler_is_an_answer() {
    let site = Site::new(Policy::new("pagos"), async |_, _: Request| {
        (StatusCode::PAYMENT_REQUIRED, "no money")
    })
    .await;
    for is_replayed in [false, true] {
        let response = site.send(paying("77")).await;
        assert_eq!(
            (response.status.as_u16(), response.text()),
            (402, "no money")
        );
        assert_eq!(response.is_replayed(), is_replayed);
    }
    assert_eq!(site.runs(), 1);
}

#[tokio::test]
async fn the_handler_is_given_the_body_that_was_read() {
    let site = Site::new(Policy::new("pagos"), async |_, request: Request| {
        request.into_body()
    })
    .await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.text(), r#"{"amount": 100}"#);
    let again = site.send(paying("77")).await;
    assert_eq!(again.body, response.body);
}

#[tokio::test]
async fn other_methods_pass() {
    let site = Site::new(Policy::new("pagos"), run_number).await;
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        for _ in 0..2 {
            let request = Request::builder().method(method.clone()).uri("/pagos");
            let response = site.send(request.body(Body::empty()).unwrap()).await;
            assert!(!response.is_replayed());
        }
    }
    assert_eq!(site.runs(), 6);
    assert_eq!(site.counts(), Default::default());
}

#[tokio::test]
async fn the_methods_that_a_policy_names_do_not() {
    let policy = Policy::new("pagos").methods([Method::PUT]);
    let site = Site::new(policy, run_number).await;
    let put = || post("77").method(Method::PUT).body(Body::empty()).unwrap();
    site.send(put()).await.assert_fresh("run 1");
    site.send(put()).await.assert_replayed("run 1");
    site.send(paying("77")).await.assert_fresh("run 2");
    site.send(paying("77")).await.assert_fresh("run 3");
}

#[tokio::test]
async fn an_answer_that_is_kept_for_no_time_is_not_given_again() {
    let policy = Policy::new("pagos").ttl(Duration::ZERO);
    let site = Site::new(policy, run_number).await;
    for run in 1..=3 {
        let response = site.send(paying("77")).await;
        response.assert_fresh(&format!("run {run}"));
    }
}
