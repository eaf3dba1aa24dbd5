//! Gauges of the store: read on a scrape, with a timeout, and cached for a moment.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::Mutex;
use turno::inbox::QueueStats;
use turno::lock::LockList;
use turno::outbox::OutboxStats;
use turno::{MAX_PAGE, Turno};

use super::PREFIX;

/// How long a result is cached, so that several scrapers share it.
const GOOD_FOR: Duration = Duration::from_secs(2);
/// Timeout of the store.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of queues with their own samples.
const QUEUES: usize = 200;

/// States of items that are not completed.
const STATES: [&str; 4] = ["pending", "scheduled", "processing", "failed"];

type Float = Gauge<f64, AtomicU64>;
type OfQueue = [(&'static str, String); 1];
type OfState = [(&'static str, &'static str); 1];

/// Reads the gauges of the store.
pub(super) struct Lookout {
    turno: Turno,
    /// The cached text. Locked while the store is read: concurrent scrapes wait for the result.
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl fmt::Debug for Lookout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookout").finish_non_exhaustive()
    }
}

impl Lookout {
    pub(super) fn new(turno: Turno) -> Self {
        Lookout {
            turno,
            last: Mutex::default(),
        }
    }

    /// Returns the gauges as text.
    pub(super) async fn look(&self) -> Arc<str> {
        let mut last = self.last.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < GOOD_FOR
        {
            return text.clone();
        }
        let seen = match tokio::time::timeout(PATIENCE, Seen::look(&self.turno)).await {
            Ok(Ok(seen)) => Some(seen),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store cannot be measured");
                None
            }
            Err(_) => {
                tracing::warn!("the store cannot be measured: it does not answer in time");
                None
            }
        };
        let text: Arc<str> = render(seen.as_ref()).into();
        *last = Some((Instant::now(), text.clone()));
        text
    }
}

/// State of the store.
struct Seen {
    queues: Vec<QueueStats>,
    outbox: OutboxStats,
    held: usize,
    waiters: u64,
}

impl Seen {
    async fn look(turno: &Turno) -> turno::Result<Self> {
        let queues = turno.inbox_stats("").await?;
        let outbox = turno.outbox().stats().await?;
        let list = LockList {
            limit: MAX_PAGE,
            ..LockList::default()
        };
        let locks = turno.lock_list(list).await?;
        Ok(Seen {
            queues,
            outbox,
            held: locks.len(),
            waiters: locks.iter().map(|lock| lock.waiters).sum(),
        })
    }
}

/// Renders the gauges. Unknown values are left out, because a zero would be false.
fn render(seen: Option<&Seen>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    let up = Gauge::<i64>::default();
    up.set(seen.is_some().into());
    registry.register("store_up", "Whether the store answers: 1, or 0", up);
    inbox(&mut registry, seen);
    outbox(&mut registry, seen);
    locks(&mut registry, seen);
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode_registry(&mut text, &registry);
    text
}

/// Registers a gauge without labels, if its value is known.
fn gauge(registry: &mut Registry, name: &str, help: &str, value: Option<u64>) {
    let Some(value) = value else { return };
    let gauge = Gauge::<i64>::default();
    gauge.set(whole(value));
    registry.register(name, help, gauge);
}

/// Registers a gauge in seconds, if its value is known.
fn seconds(registry: &mut Registry, name: &str, help: &str, value: Option<Duration>) {
    let Some(value) = value else { return };
    let gauge = Float::default();
    gauge.set(value.as_secs_f64());
    registry.register_with_unit(name, help, Unit::Seconds, gauge);
}

fn inbox(registry: &mut Registry, seen: Option<&Seen>) {
    let items = Family::<OfState, Gauge>::default();
    let of_queue = Family::<[(&'static str, String); 2], Gauge>::default();
    let completed = Family::<OfQueue, Counter>::default();
    let oldest = Family::<OfQueue, Float>::default();
    let queues = seen.map_or(&[][..], |seen| &seen.queues);
    if seen.is_some() {
        // Without queues the counts are zero.
        for state in STATES {
            items.get_or_create(&[("state", state)]).set(0);
        }
    }
    for (state, count) in queues.iter().flat_map(states) {
        items
            .get_or_create(&[("state", state)])
            .inc_by(whole(count));
    }
    for queue in queues.iter().take(QUEUES) {
        let name = [("queue", queue.queue.clone())];
        for (state, count) in states(queue) {
            let labels = [("queue", queue.queue.clone()), ("state", state.to_owned())];
            of_queue.get_or_create(&labels).set(whole(count));
        }
        completed.get_or_create(&name).inc_by(queue.completed);
        let age = queue.oldest_pending.unwrap_or_default();
        oldest.get_or_create(&name).set(age.as_secs_f64());
    }
    let help = "Items of all queues, by state";
    registry.register("inbox_items", help, items);
    let help = "How long the oldest pending item of all queues has been due";
    let age = queues.iter().filter_map(|queue| queue.oldest_pending).max();
    let age = seen.map(|_| age.unwrap_or_default());
    seconds(registry, "inbox_oldest_pending", help, age);
    let help = "Items of a queue, by state; of the first 200 queues, in order of their names";
    registry.register("inbox_queue_items", help, of_queue);
    let help = "Items of a queue that were completed since it began";
    registry.register("inbox_queue_completed", help, completed);
    let help = "How long the oldest pending item of a queue has been due; 0 if none is pending";
    registry.register_with_unit("inbox_queue_oldest_pending", help, Unit::Seconds, oldest);
    let help = "Queues that are not told of by name, because there are more than 200";
    let left_out = queues.len().saturating_sub(QUEUES) as u64;
    gauge(
        registry,
        "inbox_queues_left_out",
        help,
        seen.map(|_| left_out),
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

fn outbox(registry: &mut Registry, seen: Option<&Seen>) {
    let stats = seen.map(|seen| &seen.outbox);
    let events = Family::<OfState, Gauge>::default();
    if let Some(stats) = stats {
        for (state, count) in [
            ("pending", stats.pending),
            ("scheduled", stats.scheduled),
            ("processing", stats.processing),
            ("dead", stats.dead),
            ("blocked", stats.blocked),
        ] {
            events.get_or_create(&[("state", state)]).set(whole(count));
        }
        let dispatched = Counter::<u64>::default();
        dispatched.inc_by(stats.dispatched);
        let help = "Events that were published since the outbox began, by all relays together";
        registry.register("outbox_dispatched", help, dispatched);
    }
    registry.register("outbox_events", "Events in the outbox, by state", events);
    let help = "Keys whose events are set aside as they come";
    let parked = stats.map(|stats| stats.parked_keys);
    gauge(registry, "outbox_parked_keys", help, parked);
    let help = "How long the oldest pending event has been due: how far the relay is behind";
    let lag = stats.map(|stats| stats.oldest_pending.unwrap_or_default());
    seconds(registry, "outbox_oldest_pending", help, lag);
}

fn locks(registry: &mut Registry, seen: Option<&Seen>) {
    let help = "Locks that are held; of more than 1000, 1000 are counted";
    let held = seen.map(|seen| seen.held as u64);
    gauge(registry, "locks_held", help, held);
    let help = "Who waits for one of the locks that are counted as held";
    gauge(
        registry,
        "lock_waiters",
        help,
        seen.map(|seen| seen.waiters),
    );
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
