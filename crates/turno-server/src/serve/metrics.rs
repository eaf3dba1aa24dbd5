//! What can be counted: for Prometheus, in the OpenMetrics format.
//!
//! What this process does is counted as it happens, by handles that are made once, so that a request pays for a few
//! additions. How the store is, is looked at when somebody asks (`look`). Nothing here is global: each server counts
//! for itself.

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

/// What [`Metrics::render`] writes.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What every name begins with.
const PREFIX: &str = "turno";

/// Everything that is counted.
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
    /// Who listens to what happens.
    pub(crate) subscribers: Gauge,
    /// What is watched for them.
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

    /// All of it as text. What the store has to say is left out if it does not answer in time.
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

    /// The counter of one word; it begins at zero, so that nobody has to wait for the first one to see that there are none.
    fn of(&self, word: &'static str) -> Counter {
        self.family.get_or_create_owned(&[(self.label, word)])
    }
}
