//! A request whose earlier run is unknown, and a service that is probed for its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{AUTHORIZATION, HeaderName};
use http::{Method, Response, StatusCode};
use turno::once::http::{KeyFrom, Policy, Routes, Unknown};
use turno_server::gate::{HttpProber, Upstream};
use turno_testkit::TcpProxy;

use crate::common::{Running, TestResponse, send};
use crate::service::{Service, whole};

/// Probes a service that responds with `found`. Returns the response to the client, and how often the work was done.
async fn probed(found: u16) -> (TestResponse, usize) {
    let done = Arc::new(AtomicUsize::new(0));
    let does = done.clone();
    let service = Service::start(move |request| {
        let does = does.clone();
        async move {
            if request.method() == Method::GET {
                assert_eq!(request.uri(), "/pagos/by-key/a%2Fb");
                assert_eq!(request.headers()["authorization"], "Bearer ana");
                assert_eq!(request.headers()["idempotency-key"], "\"a/b\"");
                assert!(request.headers().contains_key("turno-key"));
                let mut response = Response::new(whole("receipt 1"));
                *response.status_mut() = StatusCode::from_u16(found).unwrap();
                return response;
            }
            let number = does.fetch_add(1, Ordering::Relaxed) + 1;
            Response::new(whole(format!("receipt {number}")))
        }
    })
    .await;
    let line = TcpProxy::start(service.address).await.unwrap();
    let upstream: Upstream = format!("http://{}", line.addr()).parse().unwrap();
    let key = KeyFrom::Header(HeaderName::from_static("idempotency-key"));
    let path = "/pagos/by-key/{key}".parse().unwrap();
    let prober = HttpProber::new(upstream, path, key).callers([AUTHORIZATION]);
    let policy = Policy::new("pagos").unknown(Unknown::Ask(Arc::new(prober)));
    let routes = Routes::new().add("/pagos", policy).unwrap();
    let gate = Running::start(line.addr(), routes).await;
    let pay = || {
        let request = gate.keyed("/pagos", "\"a/b\"");
        send(
            request
                .header("authorization", "Bearer ana")
                .body(whole("{}"))
                .unwrap(),
        )
    };
    line.drop_next_answer();
    pay().await.problem(502, "upstream_broken");
    let response = pay().await;
    (response, done.load(Ordering::Relaxed))
}

#[tokio::test]
async fn what_was_done_is_answered_and_not_done_again() {
    let (response, done) = probed(200).await;
    assert_eq!((response.status.as_u16(), done), (200, 1));
    assert_eq!(response.body, "receipt 1");
    assert_eq!(response.headers["idempotency-replayed"], "true");
}

#[tokio::test]
async fn what_was_not_done_is_done() {
    let (response, done) = probed(404).await;
    assert_eq!((response.status.as_u16(), done), (200, 2));
    assert_eq!(response.body, "receipt 2");
}

#[tokio::test]
async fn an_inconclusive_probe_leaves_it_unknown() {
    for found in [500, 403, 302] {
        let (response, done) = probed(found).await;
        response.problem(409, "unknown");
        assert_eq!(done, 1);
    }
}
