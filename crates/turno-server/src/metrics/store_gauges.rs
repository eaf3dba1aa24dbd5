//! Gauges of the store, rendered from its overview on a scrape.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use turno::inbox::QueueStats;
use turno::outbox::OutboxTableStats;
use turno::overview::{Overview, POLL_TIMEOUT};

use crate::overview::{OverviewPoller, TIMED_OUT, TablePoller};

/// Maximum number of queues with their own samples.
const MAX_QUEUES: usize = 200;

/// States of items that are not completed.
const STATES: [&str; 4] = ["pending", "scheduled", "processing", "failed"];

type Float = Gauge<f64, AtomicU64>;
type OfQueue = [(&'static str, String); 1];
type OfTable = [(&'static str, String); 1];
type OfState = [(&'static str, &'static str); 1];

/// Polls the store and returns its gauges as text.
pub(super) async fn collect(
    overview: &OverviewPoller,
    table: Option<&TablePoller>,
    prefix: &str,
) -> String {
    let store = polled(overview.poll(), "the store");
    let rows = async {
        let table = table?;
        let what = format!("outbox table {}", table.name());
        Some((table.name(), polled(table.poll(), &what).await?))
    };
    let (store, rows) = tokio::join!(store, rows);
    render(prefix, store.as_ref(), rows.as_ref())
}

/// Polls within the timeout. Logs an error.
async fn polled<T>(poll: impl Future<Output = Result<T, String>>, what: &str) -> Option<T> {
    let polled = tokio::time::timeout(POLL_TIMEOUT, poll).await;
    polled
        .unwrap_or_else(|_| Err(TIMED_OUT.to_owned()))
        .inspect_err(|error| tracing::warn!(%error, "could not poll {what} for /metrics"))
        .ok()
}

/// Renders the gauges. Unknown values are left out, because a zero would be false.
fn render(
    prefix: &str,
    overview: Option<&Overview>,
    rows: Option<&(&str, OutboxTableStats)>,
) -> String {
    let mut registry = Registry::with_prefix(prefix);
    let up = Gauge::<i64>::default();
    up.set(overview.is_some().into());
    registry.register("store_up", "1 if the store is available, else 0", up);
    inbox(&mut registry, overview);
    outbox(&mut registry, overview);
    if let Some((table, stats)) = rows {
        outbox_table(&mut registry, table, stats);
    }
    locks(&mut registry, overview);
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode_registry(&mut text, &registry);
    text
}

/// Registers a gauge without labels, if its value is known.
fn gauge(registry: &mut Registry, name: &str, help: &str, value: Option<u64>) {
    let Some(value) = value else { return };
    let gauge = Gauge::<i64>::default();
    gauge.set(as_i64(value));
    registry.register(name, help, gauge);
}

/// Registers a gauge in seconds, if its value is known.
fn seconds(registry: &mut Registry, name: &str, help: &str, value: Option<Duration>) {
    let Some(value) = value else { return };
    let gauge = Float::default();
    gauge.set(value.as_secs_f64());
    registry.register_with_unit(name, help, Unit::Seconds, gauge);
}

fn inbox(registry: &mut Registry, overview: Option<&Overview>) {
    let items = Family::<OfState, Gauge>::default();
    let of_queue = Family::<[(&'static str, String); 2], Gauge>::default();
    let completed = Family::<OfQueue, Counter>::default();
    let oldest = Family::<OfQueue, Float>::default();
    let queues = overview.map_or(&[][..], |overview| &overview.queues);
    if overview.is_some() {
        // Without queues the counts are zero.
        for state in STATES {
            items.get_or_create(&[("state", state)]).set(0);
        }
    }
    for (state, count) in queues.iter().flat_map(states) {
        items
            .get_or_create(&[("state", state)])
            .inc_by(as_i64(count));
    }
    for queue in queues.iter().take(MAX_QUEUES) {
        let name = [("queue", queue.queue.clone())];
        for (state, count) in states(queue) {
            let labels = [("queue", queue.queue.clone()), ("state", state.to_owned())];
            of_queue.get_or_create(&labels).set(as_i64(count));
        }
        completed.get_or_create(&name).inc_by(queue.completed);
        let age = queue.oldest_pending.unwrap_or_default();
        oldest.get_or_create(&name).set(age.as_secs_f64());
    }
    let help = "Items of all queues, by state";
    registry.register("inbox_items", help, items);
    let help = "How long the oldest pending item of all queues has been due";
    let age = queues.iter().filter_map(|queue| queue.oldest_pending).max();
    let age = overview.map(|_| age.unwrap_or_default());
    seconds(registry, "inbox_oldest_pending", help, age);
    let help = "Items of a queue, by state; of the first 200 queues, in order of their names";
    registry.register("inbox_queue_items", help, of_queue);
    let help = "Items of a queue that were completed since its first item";
    registry.register("inbox_queue_completed", help, completed);
    let help = "How long the oldest pending item of a queue has been due; 0 if none is pending";
    registry.register_with_unit("inbox_queue_oldest_pending", help, Unit::Seconds, oldest);
    let help = "Queues without samples of their own, because there are more than 200";
    let left_out = queues.len().saturating_sub(MAX_QUEUES) as u64;
    gauge(
        registry,
        "inbox_queues_left_out",
        help,
        overview.map(|_| left_out),
    );
}

fn states(queue: &QueueStats) -> [(&'static str, u64); 4] {
    let [pending, scheduled, processing, failed] = STATES;
    [
        (pending, queue.pending),
        (scheduled, queue.scheduled),
        (processing, queue.processing),
        (failed, queue.failed),
    ]
}

fn outbox(registry: &mut Registry, overview: Option<&Overview>) {
    let stats = overview.and_then(|overview| overview.outbox.as_ref());
    let events = Family::<OfState, Gauge>::default();
    if let Some(stats) = stats {
        for (state, count) in [
            ("pending", stats.pending),
            ("scheduled", stats.scheduled),
            ("processing", stats.processing),
            ("dead", stats.dead),
            ("blocked", stats.blocked),
        ] {
            events.get_or_create(&[("state", state)]).set(as_i64(count));
        }
        let dispatched = Counter::<u64>::default();
        dispatched.inc_by(stats.dispatched);
        let help = "Events that were published, by all relays together";
        registry.register("outbox_dispatched", help, dispatched);
    }
    registry.register("outbox_events", "Events in the outbox, by state", events);
    let help = "Ordering keys whose events are parked";
    let parked = stats.map(|stats| stats.parked_keys);
    gauge(registry, "outbox_parked_keys", help, parked);
    let help = "How long the oldest pending event has been due: the lag of the relay";
    let lag = stats.map(|stats| stats.oldest_pending.unwrap_or_default());
    seconds(registry, "outbox_oldest_pending", help, lag);
}

/// Registers the gauges of an outbox table.
fn outbox_table(registry: &mut Registry, table: &str, stats: &OutboxTableStats) {
    let of_table = [("table", table.to_owned())];
    let events = Family::<[(&'static str, String); 2], Gauge>::default();
    for (state, count) in [
        ("pending", stats.pending),
        ("scheduled", stats.scheduled),
        ("processing", stats.processing),
        ("dead", stats.dead),
        ("blocked", stats.blocked),
    ] {
        let [table] = of_table.clone();
        let labels = [table, ("state", state.to_owned())];
        events.get_or_create(&labels).set(as_i64(count));
    }
    let help = "Rows of an outbox table that are not processed, by state; at most 100,000 are counted, the oldest";
    registry.register("outbox_table_events", help, events);
    let attempts = Family::<OfTable, Gauge>::default();
    attempts
        .get_or_create(&of_table)
        .set(as_i64(stats.attempts));
    let help = "Attempts that these rows have had, together";
    registry.register("outbox_table_attempts", help, attempts);
    let parked = Family::<OfTable, Gauge>::default();
    parked
        .get_or_create(&of_table)
        .set(as_i64(stats.parked_keys));
    let help = "Ordering keys whose rows are parked";
    registry.register("outbox_table_parked_keys", help, parked);
    let oldest = Family::<OfTable, Float>::default();
    let age = stats.oldest_pending.unwrap_or_default();
    oldest.get_or_create(&of_table).set(age.as_secs_f64());
    let help = "Age of the oldest pending row; 0 if none is pending";
    registry.register_with_unit("outbox_table_oldest_pending", help, Unit::Seconds, oldest);
}

fn locks(registry: &mut Registry, overview: Option<&Overview>) {
    let locks = overview.map(|overview| &overview.locks);
    let help = "Held locks; at most 1000 are counted";
    let held = locks.map(|locks| locks.len() as u64);
    gauge(registry, "locks_held", help, held);
    let help = "Waiters of the locks that are counted as held";
    let waiters = locks.map(|locks| locks.iter().map(|lock| lock.waiters).sum());
    gauge(registry, "lock_waiters", help, waiters);
}

fn as_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
