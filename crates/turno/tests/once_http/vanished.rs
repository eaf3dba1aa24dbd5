//! Clients that disconnect, and handlers that do not return.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Response;
use axum::response::IntoResponse;
use futures_util::stream;
use tower::{Layer, ServiceExt};
use turno::Turno;
use turno::once::OnceState;
use turno::once::http::{InFlight, OnceLayer, Policy};

use crate::kit::{Held, Site, paying, problem};
use crate::{LONG, on_each_store};

on_each_store! {
    the_work_goes_on_without_its_client => the_work_goes_on_without_its_client;
}

async fn the_work_goes_on_without_its_client(url: &str) {
    let held = Held::new();
    let holding = held.clone();
    let policy = Policy::new("pagos").in_flight(InFlight::Wait(LONG));
    let site = Site::on(url, policy, move |run, _: Request| {
        let held = holding.clone();
        async move {
            held.hold().await;
            format!("run {run}")
        }
    })
    .await;
    let mut client = Box::pin(site.call(paying("77")));
    tokio::select! {
        _ = &mut client => panic!("it is held"),
        () = held.begun() => {}
    }
    drop(client);
    held.go();
    site.send(paying("77")).await.assert_replayed("run 1");
    assert_eq!(site.runs(), 1);
}

#[tokio::test]
async fn a_panic_leaves_it_unknown() {
    let site = Site::new(Policy::new("pagos"), async |_, _: Request| -> String {
        panic!("on purpose")
    })
    .await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(500, "failed"));
    site.await_state(OnceState::Unknown).await;
    let again = site.send(paying("77")).await;
    assert_eq!(again.problem(), problem(409, "unknown"));
    assert_eq!(site.runs(), 1);
}

/// Without axum, whose services do not fail.
#[tokio::test]
async fn a_service_that_fails_leaves_it_unknown() {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let layer = OnceLayer::new(turno, Policy::new("pagos"));
    let service = layer.layer(tower::service_fn(async |_: axum::http::Request<_>| {
        Err::<Response<Body>, _>("connection reset")
    }));
    let failed = service.clone().oneshot(paying("77")).await;
    assert_eq!(failed.unwrap_err(), "connection reset");
    let again = service.oneshot(paying("77")).await.unwrap();
    let response = crate::kit::TestResponse::from(again.map(Body::new)).await;
    assert_eq!(response.problem(), problem(409, "unknown"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_leaves_it_unknown() {
    let site = Site::new(Policy::new("pagos"), async |_, _: Request| {
        let frames = [
            Ok(Bytes::from("half of ")),
            Err(std::io::Error::other("cut")),
        ];
        Body::from_stream(stream::iter(frames)).into_response()
    })
    .await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.problem(), problem(500, "failed"));
    let again = site.send(paying("77")).await;
    assert_eq!(again.problem(), problem(409, "unknown"));
    assert_eq!(site.runs(), 1);
}

/// A client that disconnects while its request is still being read has started nothing.
#[tokio::test]
async fn a_client_that_goes_away_early_has_begun_nothing() {
    let site = Site::new(Policy::new("pagos"), crate::kit::run_number).await;
    let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let request = crate::kit::post("77").body(body).unwrap();
    let mut client = Box::pin(site.call(request));
    assert!(futures_util::poll!(&mut client).is_pending());
    drop(client);
    site.send(paying("77")).await.assert_fresh("run 1");
}
