//! A request whose work is in flight.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use turno::once::http::{InFlight, Policy, Template};

use crate::kit::{Held, Site, paying, post, problem};
use crate::{LONG, on_each_store};

on_each_store! {
    a_retry_is_asked_for => a_retry_is_asked_for;
    it_waits_for_the_answer => it_waits_for_the_answer;
}

/// Creates a site whose handlers are paused.
async fn held(url: &str, policy: Policy) -> (Site, Held) {
    let held = Held::new();
    let holding = held.clone();
    let site = Site::on(url, policy, move |run, _: Request| {
        let held = holding.clone();
        async move {
            held.hold().await;
            format!("run {run}")
        }
    })
    .await;
    (site, held)
}

async fn a_retry_is_asked_for(url: &str) {
    let policy = Policy::new("pagos").retry_after(Duration::from_millis(2500));
    let (site, held) = held(url, policy).await;
    let first = site.sending(paying("77"));
    held.begun().await;

    let english = site.send(paying("77")).await;
    assert_eq!(english.problem(), problem(409, "in_flight"));
    assert_eq!(english.header("retry-after"), Some("3"), "whole seconds");
    assert_eq!(english.header("content-language"), Some("en"));
    let response = english.json();
    assert_eq!(response["retry_after_ms"], 2500);
    assert_eq!(response["title"], "The request is being processed");

    let mut request = paying("77");
    let wanted = HeaderValue::from_static("fr, es-MX;q=0.8, en;q=0.5");
    request.headers_mut().insert("accept-language", wanted);
    let spanish = site.send(request).await;
    assert_eq!(spanish.problem(), problem(409, "in_flight"));
    assert_eq!(spanish.header("content-language"), Some("es"));
    assert_eq!(spanish.json()["title"], "La petición se está procesando");

    held.go();
    first.await.unwrap().assert_fresh("run 1");
    site.send(paying("77")).await.assert_replayed("run 1");
    assert_eq!(site.counts().in_flight, 2);
    assert_eq!(site.runs(), 1);
}

/// Also on another instance, which is notified of the answer through the store.
async fn it_waits_for_the_answer(url: &str) {
    let policy = Policy::new("pagos").in_flight(InFlight::Wait(LONG));
    let (site, held) = held(url, policy.clone()).await;
    let other = Site::on(url, policy, crate::kit::run_number).await;
    let first = site.sending(paying("77"));
    held.begun().await;
    let waiting = [&site, &site, &other].map(|site| site.sending(paying("77")));
    held.go();
    first.await.unwrap().assert_fresh("run 1");
    for one in waiting {
        one.await.unwrap().assert_replayed("run 1");
    }
    assert_eq!((site.runs(), other.runs()), (1, 0));
}

#[tokio::test]
async fn it_waits_no_longer_than_configured() {
    let policy = Policy::new("pagos").in_flight(InFlight::Wait(Duration::from_millis(20)));
    let (site, held) = held("sqlite::memory:", policy).await;
    let first = site.sending(paying("77"));
    held.begun().await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(409, "in_flight"));
    assert!(response.headers.contains_key(RETRY_AFTER));
    held.go();
    first.await.unwrap().assert_fresh("run 1");
}

/// The contract of afore, which has no 409.
#[tokio::test]
async fn it_is_answered_in_the_words_of_an_older_contract() {
    let template = r#"{"resultadoOperacion": "02", "diagnosticoProcesar": "532",
        "folio": {"$request": "/folio"}, "nada": {"$request": "/nada"}}"#;
    let template = Template::new(200, template).unwrap().header(
        "x-duplicado".parse().unwrap(),
        HeaderValue::from_static("si"),
    );
    let policy = Policy::new("afore").in_flight(InFlight::Template(template));
    let (site, held) = held("sqlite::memory:", policy).await;
    let request = || {
        let body = r#"{"folio": 12345678901234567890.10}"#;
        post("77").body(Body::from(body)).unwrap()
    };
    let first = site.sending(request());
    held.begun().await;
    let response = site.send(request()).await;
    assert_eq!(response.status.as_u16(), 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("x-duplicado"), Some("si"));
    assert!(!response.is_replayed());
    assert!(
        response
            .text()
            .contains(r#""folio": 12345678901234567890.10, "nada": null"#),
        "{response:?}"
    );
    held.go();
    first.await.unwrap().assert_fresh("run 1");
    site.send(request()).await.assert_replayed("run 1");
}

#[tokio::test]
async fn an_answer_that_is_kept_for_no_time_still_turns_away_what_comes_meanwhile() {
    let policy = Policy::new("pagos").ttl(Duration::ZERO);
    let (site, held) = held("sqlite::memory:", policy).await;
    let first = site.sending(paying("77"));
    held.begun().await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(409, "in_flight"));
    held.go();
    first.await.unwrap().assert_fresh("run 1");
    held.go();
    site.send(paying("77")).await.assert_fresh("run 2");
}
