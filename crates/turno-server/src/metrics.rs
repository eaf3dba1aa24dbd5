//! Metrics for Prometheus, in the OpenMetrics format.
//!
//! The work of this process is counted as it happens. The counters are created once, so that a request costs a few additions.
//! The gauges of the store are read when the metrics are scraped (`store_gauges`). Nothing is global: each server has its own
//! metrics.

mod counters;
mod http;
mod outcomes;
mod store_gauges;

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub(crate) use self::counters::Inbox;
use self::counters::{Locks, Once, Outbox, Sweeper};
use self::http::{Http, InFlight};
use crate::overview::{OverviewPoller, TablePoller};

/// Content type of [`Metrics::render`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Prefix of all metric names.
const PREFIX: &str = "turno";

/// All metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    overview: Arc<OverviewPoller>,
    /// Polls an outbox table, if one is configured.
    table: Option<TablePoller>,
    http: Arc<Http>,
    pub(crate) locks: Locks,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) once: Once,
    pub(crate) sweeper: Sweeper,
    /// Number of subscribers of `/v1/stream`.
    pub(crate) subscribers: Gauge,
    /// Number of prefixes that are polled for them.
    pub(crate) feeds: Gauge,
}

impl Metrics {
    pub(crate) fn new(overview: Arc<OverviewPoller>, table: Option<TablePoller>) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let kind = overview.turno.store().name();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("store", kind)]);
        registry.register(
            "build",
            "Version of the server, and kind of its store",
            build,
        );
        let http = Http::new(&mut registry);
        let subscribers = Gauge::default();
        let help = "Subscribers of /v1/stream";
        registry.register("stream_subscribers", help, subscribers.clone());
        let feeds = Gauge::default();
        let help = "Prefixes that are polled for the subscribers";
        registry.register("stream_feeds", help, feeds.clone());
        Metrics {
            http: Arc::new(http),
            subscribers,
            feeds,
            locks: Locks::new(&mut registry),
            inbox: Inbox::new(&mut registry),
            outbox: Outbox::new(&mut registry),
            once: Once::new(&mut registry),
            sweeper: Sweeper::new(&mut registry),
            overview,
            table,
            registry,
        }
    }

    /// Counts a request in flight.
    pub(crate) fn begin(&self, request: &Request) -> InFlight {
        self.http.begin(request)
    }

    /// Counts the outcome of a request. Call it before the problem of the response is rendered.
    pub(crate) fn count_outcome(&self, request: &InFlight, response: &Response) {
        let counter = outcomes::counter(&self.locks, &self.once, request, response);
        counter.inspect(|counter| {
            counter.inc();
        });
    }

    /// Returns the gauge of open connections.
    pub(crate) fn connections(&self) -> Gauge {
        self.http.connections.clone()
    }

    /// Renders all metrics. Those of the store are left out if it is unavailable.
    pub(crate) async fn render(&self) -> Result<String, std::fmt::Error> {
        let table = self.table.as_ref();
        let gauges = store_gauges::collect(&self.overview, table, PREFIX).await;
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        text.write_str(&gauges)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}
