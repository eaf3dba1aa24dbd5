//! A request whose earlier run is unknown: rejected, done again, or probed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use axum::Extension;
use axum::extract::Request;
use axum::http::StatusCode;
use turno::once::http::{
    Attempt, Policy, ProbeRequest, Prober, StoredResponse, Unknown, WorkOutcome,
};
use turno::once::{OnceState, Probe};

use crate::kit::{Site, paying, problem};
use crate::on_each_store;

on_each_store! {
    it_is_refused => it_is_refused;
    it_is_done_again => it_is_done_again;
    it_was_done => it_was_done;
    it_was_not_done => it_was_not_done;
    the_probe_is_inconclusive => the_probe_is_inconclusive;
}

/// Creates a site whose first run is unknown. Handlers return the number of their attempt.
async fn vanished(url: &str, unknown: Unknown) -> Site {
    let policy = Policy::new("pagos").unknown(unknown);
    let site = Site::on(url, policy, async |run, request: Request| {
        let attempt = request.extensions().get::<Attempt>().unwrap().number();
        let answer = format!("run {run}, attempt {attempt}");
        match run {
            1 => Err((StatusCode::BAD_GATEWAY, Extension(WorkOutcome::Unknown))),
            _ => Ok(answer),
        }
    })
    .await;
    let response = site.send(paying("77")).await;
    assert_eq!(response.status, StatusCode::BAD_GATEWAY);
    site
}

async fn it_is_refused(url: &str) {
    let site = vanished(url, Unknown::Refuse).await;
    for _ in 0..2 {
        let response = site.send(paying("77")).await;
        assert_eq!(response.problem(), problem(409, "unknown"));
        assert!(!response.headers.contains_key("retry-after"), "it stays so");
    }
    assert_eq!((site.runs(), site.counts().unknown), (1, 2));

    // Until an operator has resolved it.
    let view = site.await_state(OnceState::Unknown).await;
    assert!(site.turno.once(&view.key).forget().await.unwrap());
    site.send(paying("77"))
        .await
        .assert_fresh("run 2, attempt 1");
}

async fn it_is_done_again(url: &str) {
    let site = vanished(url, Unknown::Rerun).await;
    site.send(paying("77"))
        .await
        .assert_fresh("run 2, attempt 2");
    site.send(paying("77"))
        .await
        .assert_replayed("run 2, attempt 2");
    assert_eq!(site.runs(), 2);
}

/// A probe that always returns the same, and counts its calls.
struct Always {
    found: Probe<u16>,
    asked: AtomicU32,
}

#[async_trait]
impl Prober for Always {
    async fn probe(&self, asked: &ProbeRequest<'_>) -> Probe<StoredResponse> {
        assert_eq!(asked.body, r#"{"amount": 100}"#);
        assert_eq!(asked.head.uri.path(), "/pagos");
        assert!(asked.key.starts_with("pagos:"), "{}", asked.key);
        let times = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(asked.attempt, times + 1);
        match self.found {
            Probe::Done(status) => Probe::Done(StoredResponse {
                status,
                headers: vec![("location".to_owned(), "/pagos/1".to_owned())],
                body: Some("found".to_owned()),
                base64: None,
            }),
            Probe::NotDone => Probe::NotDone,
            Probe::Unsure => Probe::Unsure,
        }
    }
}

async fn asking(url: &str, found: Probe<u16>) -> (Site, Arc<Always>) {
    let prober = Arc::new(Always {
        found,
        asked: AtomicU32::new(0),
    });
    (vanished(url, Unknown::Ask(prober.clone())).await, prober)
}

async fn it_was_done(url: &str) {
    let (site, prober) = asking(url, Probe::Done(201)).await;
    for _ in 0..2 {
        let response = site.send(paying("77")).await;
        assert_eq!((response.status.as_u16(), response.text()), (201, "found"));
        assert_eq!(response.header("location"), Some("/pagos/1"));
        assert!(response.is_replayed());
    }
    assert_eq!(prober.asked.load(Ordering::Relaxed), 1);
    assert_eq!(site.runs(), 1);
}

async fn it_was_not_done(url: &str) {
    let (site, prober) = asking(url, Probe::NotDone).await;
    site.send(paying("77"))
        .await
        .assert_fresh("run 2, attempt 2");
    site.send(paying("77"))
        .await
        .assert_replayed("run 2, attempt 2");
    assert_eq!(prober.asked.load(Ordering::Relaxed), 1);
}

/// The next request then calls the probe again.
async fn the_probe_is_inconclusive(url: &str) {
    let (site, prober) = asking(url, Probe::Unsure).await;
    for _ in 0..2 {
        let response = site.send(paying("77")).await;
        assert_eq!(response.problem(), problem(409, "unknown"));
    }
    assert_eq!(prober.asked.load(Ordering::Relaxed), 2);
    assert_eq!((site.runs(), site.counts().unknown), (1, 2));
}
