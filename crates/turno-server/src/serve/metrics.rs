//! Metrics for Prometheus, in the OpenMetrics format.
//!
//! The work of this process is counted as it happens. The counters are created once, so that a request costs a few additions.
//! The gauges of the store are read when the metrics are scraped (`look`). Nothing is global: each server has its own metrics.

mod http;
mod look;
pub(super) mod tally;
mod work;

use std::fmt::Write as _;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use turno::Turno;

use self::http::Http;
use self::look::Lookout;
pub(super) use self::work::Inbox;
use self::work::{Locks, Once, Outbox, Sweeper};

/// Content type of [`Metrics::render`].
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Prefix of all metric names.
const PREFIX: &str = "turno";

/// All metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    lookout: Lookout,
    pub(crate) http: Http,
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
    pub(crate) fn new(turno: &Turno) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let store = turno.store().name();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("store", store)]);
        registry.register("build", "The program, and the kind of its store", build);
        let http = Http::new(&mut registry);
        let subscribers = Gauge::default();
        let help = "Clients that listen to /v1/stream";
        registry.register("stream_subscribers", help, subscribers.clone());
        let feeds = Gauge::default();
        let help = "Prefixes that are watched for these";
        registry.register("stream_feeds", help, feeds.clone());
        Metrics {
            http,
            subscribers,
            feeds,
            locks: Locks::new(&mut registry),
            inbox: Inbox::new(&mut registry),
            outbox: Outbox::new(&mut registry),
            once: Once::new(&mut registry),
            sweeper: Sweeper::new(&mut registry),
            lookout: Lookout::new(turno.clone()),
            registry,
        }
    }

    /// Renders all metrics. Those of the store are left out if it is unavailable.
    pub(crate) async fn render(&self) -> Result<String, std::fmt::Error> {
        let of_store = self.lookout.look().await;
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        text.write_str(&of_store)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// Counters that differ in one label.
struct Counters {
    label: &'static str,
    family: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Counters {
    fn new(
        registry: &mut Registry,
        name: &'static str,
        help: &'static str,
        label: &'static str,
    ) -> Self {
        let family = Family::default();
        registry.register(name, help, family.clone());
        Counters { label, family }
    }

    /// Returns the counter of one label value. It is exported as 0 before the first event, so that a zero can be seen.
    fn of(&self, word: &'static str) -> Counter {
        self.family.get_or_create_owned(&[(self.label, word)])
    }
}
