//! The HTTP layer: a request with an `Idempotency-Key` is answered once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::post;
use http::Request;
use tower::ServiceExt;
use turno::Turno;
use turno::once::http::{OnceLayer, Policy};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turno = Turno::connect("sqlite::memory:").await?;
    let payments = Arc::new(AtomicU32::new(0));
    let pay = move || {
        let payments = payments.clone();
        async move { format!("receipt {}", payments.fetch_add(1, Ordering::Relaxed) + 1) }
    };
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(OnceLayer::new(turno, Policy::new("payments")));

    // A client that gets no response sends the same request again.
    for repeated in [false, true] {
        let request = Request::post("/payments")
            .header("idempotency-key", "77")
            .body(Body::empty())?;
        let response = app.clone().oneshot(request).await?;
        let replayed = response.headers().contains_key("idempotency-replayed");
        let body = to_bytes(response.into_body(), 1024).await?;
        assert_eq!((replayed, &body[..]), (repeated, &b"receipt 1"[..]));
    }
    Ok(())
}
