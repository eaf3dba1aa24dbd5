//! A request whose earlier run has vanished: refused, done again, or asked about.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use axum::Extension;
use axum::extract::Request;
use axum::http::StatusCode;
use turno::once::http::{Asked, Attempt, Fate, Policy, Prober, StoredResponse, Unknown};
use turno::once::{OnceState, Probe};

use crate::kit::{Site, paying, problem};
use crate::on_each_store;

on_each_store! {
    it_is_refused => it_is_refused;
    it_is_done_again => it_is_done_again;
    it_was_done => it_was_done;
    it_was_not_done => it_was_not_done;
    it_cannot_be_told => it_cannot_be_told;
}

/// A site whose first run has vanished. Handlers say which attempt they are.
async fn vanished(url: &str, unknown: Unknown) -> Site {
    let policy = Policy::new("pagos").unknown(unknown);
    let site = Site::on(url, policy, async |run, request: Request| {
        let attempt = request.extensions().get::<Attempt>().unwrap().number();
        let answer = format!("run {run}, attempt {attempt}");
        match run {
            1 => Err((StatusCode::BAD_GATEWAY, Extension(Fate::Unknown))),
            _ => Ok(answer),
        }
    })
    .await;
    let told = site.send(paying("77")).await;
    assert_eq!(told.status, StatusCode::BAD_GATEWAY);
    site
}

async fn it_is_refused(url: &str) {
    let site = vanished(url, Unknown::Refuse).await;
    for _ in 0..2 {
        let told = site.send(paying("77")).await;
        assert_eq!(told.problem(), problem(409, "unknown"));
        assert!(!told.headers.contains_key("retry-after"), "it stays so");
    }
    assert_eq!((site.runs(), site.counts().unknown), (1, 2));

    // Until a person has looked.
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

/// Somebody who always says the same, and counts.
struct Always {
    found: Probe<u16>,
    asked: AtomicU32,
}

#[async_trait]
impl Prober for Always {
    async fn probe(&self, asked: &Asked<'_>) -> Probe<StoredResponse> {
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
        let told = site.send(paying("77")).await;
        assert_eq!((told.status.as_u16(), told.text()), (201, "found"));
        assert_eq!(told.header("location"), Some("/pagos/1"));
        assert!(told.is_replayed());
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

/// Then it is asked again by the next one.
async fn it_cannot_be_told(url: &str) {
    let (site, prober) = asking(url, Probe::Unsure).await;
    for _ in 0..2 {
        let told = site.send(paying("77")).await;
        assert_eq!(told.problem(), problem(409, "unknown"));
    }
    assert_eq!(prober.asked.load(Ordering::Relaxed), 2);
    assert_eq!((site.runs(), site.counts().unknown), (1, 2));
}
