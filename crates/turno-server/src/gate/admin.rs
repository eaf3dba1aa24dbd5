//! `/healthz`, `/readyz` and `/metrics` of a gate, on an address of their own: all paths of the gate's main address belong to
//! the service.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::once::http::{Counts, OnceLayer};

/// Timeout of the check that the store accepts writes.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

struct Admin {
    turno: Turno,
    layer: OnceLayer,
    /// Cancelled when the gate shuts down.
    closing: CancellationToken,
    /// Held during a check of the store: only one request at a time checks it.
    asking: Mutex<()>,
}

/// Serves requests until `shutdown` resolves.
pub(super) async fn serve(
    listener: TcpListener,
    turno: Turno,
    layer: OnceLayer,
    closing: CancellationToken,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let admin = Admin {
        turno,
        layer,
        closing,
        asking: Mutex::default(),
    };
    let routes = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(admin));
    axum::serve(listener, routes)
        .with_graceful_shutdown(shutdown)
        .await
}

async fn ready(State(admin): State<Arc<Admin>>) -> Response {
    let not_ready =
        |why: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response();
    if admin.closing.is_cancelled() {
        return not_ready("the gate is shutting down");
    }
    let _asking = admin.asking.lock().await;
    match tokio::time::timeout(READY_TIMEOUT, admin.turno.store().check_writable()).await {
        Ok(Ok(())) => "ok\n".into_response(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            not_ready("the store does not accept writes")
        }
        Err(_) => not_ready("the store does not answer in time"),
    }
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    match render(&admin.layer.counts()) {
        Some(text) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Renders the counts as one metric with a sample per outcome.
fn render(counts: &Counts) -> Option<String> {
    let requests = Family::<[(&str, String); 1], Counter>::default();
    let counts = serde_json::to_value(counts).ok()?;
    for (outcome, count) in counts.as_object()? {
        let counter = requests.get_or_create_owned(&[("outcome", outcome.clone())]);
        counter.inc_by(count.as_u64()?);
    }
    let mut registry = Registry::with_prefix("turno");
    let help = "Requests under a policy, by what became of them";
    registry.register("gate_requests", help, requests);
    let mut text = String::new();
    encode(&mut text, &registry).ok()?;
    Some(text)
}
