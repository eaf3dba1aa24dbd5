//! A relay and a destination that is down for a while: there are few attempts, and then every event arrives.
//!
//! The outage is short by default. `TURNO_OUTAGE_WINDOW=600` makes it ten minutes, and prints the number of attempts per
//! destination.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lapin::types::{AMQPValue, FieldTable};
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::{Event, EventState, Relay, RelayReport};
use turno::sink::{Outage, Outgoing, PublishResult, RabbitMq, Sink};
use turno_testkit::conformance::TestStore;
use turno_testkit::eventually_async;

use crate::LONG;
use crate::amqp::{Desk, shared, text};
use crate::hook::{Hook, Reply};
use crate::webhook::{OK, to};

/// Duration of the outage.
const WINDOW: Duration = Duration::from_secs(3);
/// Sets another duration, in seconds.
const WINDOW_VARIABLE: &str = "TURNO_OUTAGE_WINDOW";
/// Maximum number of attempts at a destination, even in ten minutes.
const MAX_TRIES: usize = 100;
/// More than two concurrent batches of a relay publish.
const EVENTS: usize = 200;

fn window() -> Duration {
    match std::env::var(WINDOW_VARIABLE) {
        Ok(seconds) => Duration::from_secs(seconds.parse().unwrap()),
        Err(_) => WINDOW,
    }
}

/// Prints the number of attempts at a destination, if that is measured.
fn measured(what: &str, tries: usize) {
    if std::env::var_os(WINDOW_VARIABLE).is_some() {
        eprintln!("{what}: tried {tries} times in {:?}", window());
    }
    assert!((1..MAX_TRIES).contains(&tries), "{what}: {tries} tries");
}

async fn emit(turno: &Turno, kinds: &[&str]) {
    let events: Vec<_> = (0..EVENTS)
        .flat_map(|n| kinds.iter().map(move |kind| Event::new(*kind, &n)))
        .collect();
    turno.outbox().emit_many(&events).await.unwrap();
}

/// A relay in the background.
struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<turno::Result<RelayReport>>,
}

impl Running {
    fn start(relay: Relay) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(relay.run(stop.clone().cancelled_owned()));
        Running { stop, task }
    }

    async fn stop(self) -> RelayReport {
        self.stop.cancel();
        self.task.await.unwrap().unwrap()
    }
}

/// Tests a webhook that replies with `reply` until the outage ends, on each store.
async fn a_webhook_is_tried_seldom(what: &str, reply: Reply, most: usize) {
    for test_store in [TestStore::sqlite(), TestStore::postgres()] {
        let is_healed = Arc::new(AtomicBool::new(false));
        let healed = is_healed.clone();
        let reply = reply.clone();
        let hook = Hook::start(move |_| {
            let reply = match healed.load(Ordering::SeqCst) {
                true => OK,
                false => reply.clone(),
            };
            std::future::ready(reply)
        })
        .await;
        let turno = test_store.turno().await;
        emit(&turno, &["ThingEvent"]).await;
        // One attempt per event: a single refusal would make it dead.
        let relay = turno.outbox().relay(Arc::new(to(&hook))).max_attempts(1);
        let running = Running::start(relay);
        tokio::time::sleep(window()).await;
        let tries = hook.seen().len();
        measured(what, tries);
        assert!(tries <= most || window() > WINDOW, "{what}: {tries} tries");
        is_healed.store(true, Ordering::SeqCst);
        eventually_async(LONG, "every event to be dispatched", async || {
            let stats = turno.outbox().stats().await.unwrap();
            (stats.dispatched == EVENTS as u64).then_some(())
        })
        .await;
        let report = running.stop().await;
        assert_eq!((report.sent, report.dead), (EVENTS as u64, 0));
    }
}

/// Sixteen concurrently at first, and then one after each pause: 50 + 100 + 200 + … ms, with the shortest pauses.
const AT_FIRST: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_answers_503_is_tried_seldom() {
    let reply = Reply::Answer("503 Service Unavailable", "");
    a_webhook_is_tried_seldom("503", reply, AT_FIRST + 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_asks_for_a_pause_gets_it() {
    let reply = Reply::Answer("429 Too Many Requests\r\nretry-after: 1", "");
    a_webhook_is_tried_seldom("429 with Retry-After", reply, AT_FIRST + 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_resets_connections_is_tried_seldom() {
    // The HTTP client repeats a request if the connection was reset immediately.
    a_webhook_is_tried_seldom("connection reset", Reply::Reset, 2 * (AT_FIRST + 7)).await;
}

/// RabbitMQ, with a count of busy results per event type.
#[derive(Debug)]
struct Counted {
    sink: RabbitMq,
    busy: Mutex<BTreeMap<String, usize>>,
}

#[async_trait]
impl Sink for Counted {
    fn name(&self) -> String {
        self.sink.name()
    }

    async fn ready(&self) -> Result<(), Outage> {
        self.sink.ready().await
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let results = self.sink.publish(events).await;
        for (event, result) in events.iter().zip(&results) {
            match result {
                PublishResult::Busy(_) => {
                    *self
                        .busy
                        .lock()
                        .unwrap()
                        .entry(event.kind.clone())
                        .or_default() += 1;
                }
                PublishResult::Sent => {}
                other => panic!("{other:?}"),
            }
        }
        results
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_stops_its_own_events_only_and_kills_none() {
    for test_store in [TestStore::sqlite(), TestStore::postgres()] {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), text("classic"));
        arguments.insert("x-max-length".into(), AMQPValue::LongInt(10));
        arguments.insert("x-overflow".into(), text("reject-publish"));
        let full = Desk::open_with(&shared().url(), "full.#", arguments).await;
        let fine = Desk::open(&shared().url(), "fine.#").await;
        bind(&fine, &full.exchange, "fine.#").await;
        let sink = RabbitMq::new(&shared().url()).unwrap();
        let sink = Arc::new(Counted {
            sink: sink.exchange(&full.exchange),
            busy: Mutex::default(),
        });
        let turno = test_store.turno().await;
        emit(&turno, &["FullThingEvent", "FineThingEvent"]).await;
        let running = Running::start(turno.outbox().relay(sink.clone()).max_attempts(1));

        let mut arrived = BTreeSet::new();
        eventually_async(LONG, "the events of the other type", async || {
            arrived.extend(fine.drain().await);
            (arrived.len() == EVENTS).then_some(())
        })
        .await;
        tokio::time::sleep(window()).await;
        let busy = sink.busy.lock().unwrap().clone();
        assert_eq!(busy.keys().collect::<Vec<_>>(), ["FullThingEvent"]);
        measured("full queue", busy["FullThingEvent"]);
        let dead = turno.outbox().list(EventState::Dead, None, 10).await;
        assert_eq!(dead.unwrap(), []);

        let mut arrived = BTreeSet::new();
        eventually_async(LONG, "the events of the full queue", async || {
            arrived.extend(full.drain().await);
            (arrived.len() == EVENTS).then_some(())
        })
        .await;
        eventually_async(LONG, "all to be recorded", async || {
            let stats = turno.outbox().stats().await.unwrap();
            (stats.dispatched == 2 * EVENTS as u64).then_some(())
        })
        .await;
        let report = running.stop().await;
        assert_eq!((report.dead, report.refused, report.outages), (0, 0, 0));
    }
}

async fn bind(desk: &Desk, exchange: &str, pattern: &str) {
    desk.channel
        .queue_bind(
            desk.queue.as_str().into(),
            exchange.into(),
            pattern.into(),
            lapin::options::QueueBindOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
}
