//! `GET /metrics`, in Prometheus's text format: counts of the outbox, of a worker and of a consumer.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use turno::Turno;

use crate::consumer::Counts;
use crate::publisher::PublisherCounts;

/// Sources of the metrics.
#[derive(Clone)]
pub(crate) struct Metrics {
    pub(crate) turno: Turno,
    /// Counters of a worker; `None` in other processes.
    pub(crate) publisher: Option<Arc<PublisherCounts>>,
    /// Counters of a consumer; `None` in other processes.
    pub(crate) consumer: Option<Arc<Counts>>,
}

pub(crate) fn router(metrics: Metrics) -> Router {
    Router::new()
        .route("/metrics", get(show))
        .with_state(metrics)
}

async fn show(State(metrics): State<Metrics>) -> Response {
    match metrics.text().await {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

impl Metrics {
    async fn text(&self) -> turno::Result<String> {
        let stats = self.turno.outbox().stats().await?;
        let oldest = stats.oldest_pending.map_or(0, |age| age.as_secs());
        let mut all = vec![
            ("outbox_pending", "gauge", stats.pending),
            ("outbox_scheduled", "gauge", stats.scheduled),
            ("outbox_processing", "gauge", stats.processing),
            ("outbox_dead", "gauge", stats.dead),
            ("outbox_blocked", "gauge", stats.blocked),
            ("outbox_dispatched_total", "counter", stats.dispatched),
            ("outbox_oldest_pending_seconds", "gauge", oldest),
        ];
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        if let Some(counts) = &self.publisher {
            all.extend([
                ("publisher_sent_total", "counter", read(&counts.sent)),
                ("publisher_failed_total", "counter", read(&counts.failed)),
                ("publisher_skipped_total", "counter", read(&counts.skipped)),
            ]);
        }
        if let Some(counts) = &self.consumer {
            all.extend([
                ("consumer_handled_total", "counter", read(&counts.handled)),
                (
                    "consumer_duplicates_total",
                    "counter",
                    read(&counts.duplicates),
                ),
                ("consumer_failed_total", "counter", read(&counts.failed)),
            ]);
        }
        let mut text = String::new();
        for (name, kind, value) in all {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# TYPE ticketflow_{name} {kind}\nticketflow_{name} {value}"
            );
        }
        Ok(text)
    }
}
