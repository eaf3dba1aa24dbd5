//! The relay: at least once, in order, through outages, and despite poisonous events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use turno::outbox::{Event, EventState, Mode, OnDead};
use turno::sink::{Outage, Outgoing, PublishResult, Sink};
use turno::store::Order;

use crate::conformance::lock::fixtures::TIMEOUT;
use crate::conformance::outbox::fixtures::*;
use crate::conformance::{TestStore, rule};

const MODES: [Mode; 3] = [Mode::Single, Mode::Parallel, Mode::Ordered];

fn texts(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

/// Each event arrives once, in each mode, and in the order of its key where that is promised.
#[rule]
async fn everything_arrives_once(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for mode in MODES {
        let sink = Scripted::new([]);
        let running = Running::start(relay(&turno, &sink).mode(mode).batch(7));
        emit_keyed(&turno, &["a", "b", "c"], 20).await;
        arrived(&sink, 60).await;
        let report = running.stop().await;
        assert_eq!((report.sent, report.stale, report.refused), (60, 0, 0));
        let got = sink.got();
        assert_eq!(got.len(), 60, "{mode}");
        for key in ["a", "b", "c"] {
            let of_key: Vec<u32> = got
                .iter()
                .filter(|event| event.key.as_deref() == Some(key))
                .map(|event| event.payload.parse().unwrap())
                .collect();
            assert_eq!(of_key.len(), 20);
            assert!(
                mode == Mode::Parallel || of_key.is_sorted(),
                "{mode}: {of_key:?}"
            );
        }
        if mode == Mode::Single {
            assert_eq!(sink.payloads(), texts(0..60), "{mode}: as emitted");
        }
        assert!(sink.batches().iter().all(|size| *size <= 7));
    }
}

/// An emission wakes an idle relay of another instance at once, without waiting for its poll.
#[rule]
async fn an_emission_wakes_a_relay(test_store: &TestStore) {
    let (turno, elsewhere) = (test_store.turno().await, test_store.turno().await);
    let sink = Scripted::new([]);
    // Behind a pooler there are no notifications, and relays poll more often.
    let running = Running::start(relay(&turno, &sink).poll(Duration::from_secs(3600)));
    for round in 1..=3 {
        emit(&elsewhere, &[event(round)]).await;
        arrived(&sink, round as usize).await;
    }
    running.stop().await;
}

/// An outage of the sink counts no attempt: no event is dead, none is lost, and events that may have arrived are labelled.
#[rule]
async fn an_outage_costs_nothing(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for mode in MODES {
        let sink = Scripted::new([Act::GoAway(3)]);
        let ids = emit_keyed(&turno, &["a", "b", "c", "d", "e"], 2).await;
        let running = Running::start(relay(&turno, &sink).mode(mode).max_attempts(1));
        crate::eventually_async(TIMEOUT, "the outage", async || sink.is_down().then_some(())).await;
        // Two were confirmed.
        let waiting = crate::eventually_async(TIMEOUT, "everything to go back", async || {
            let waiting = list(&turno, EventState::Pending).await;
            (waiting.len() == 8).then_some(waiting)
        })
        .await;
        assert!(waiting.iter().all(|event| event.refused == 0), "{mode}");
        assert_eq!(waiting.iter().filter(|event| event.doubtful > 0).count(), 1);
        sink.heal();
        arrived(&sink, 11).await;
        let report = running.stop().await;
        assert_eq!((report.sent, report.dead), (10, 0), "{mode}");
        let got = sink.got();
        let mut labelled = Vec::new();
        for id in &ids {
            let times: Vec<_> = got.iter().filter(|event| event.id == *id).collect();
            assert!(!times.is_empty(), "{mode}: lost");
            labelled.extend(times[1..].iter().map(|event| event.possible_duplicate));
        }
        assert_eq!(labelled, [true], "{mode}: the one that came twice");
        assert!(list(&turno, EventState::Dead).await.is_empty(), "{mode}");
    }
}

/// A sink that accepts connections, and responds to each event with an outage, is retried with growing pauses, however long it
/// lasts. Then all events arrive. The control: without pauses it is retried all the time.
#[rule]
async fn a_sink_that_is_out_is_tried_seldom(test_store: &TestStore) {
    const FIRST: Duration = Duration::from_millis(20);
    const WINDOW: Duration = Duration::from_millis(600);
    let turno = test_store.turno().await;
    for mode in MODES {
        let sink = Overloaded::new(
            PublishResult::Doubtful(Outage::new("503")),
            "TicketCreatedEvent",
        );
        let events: Vec<_> = (0..100).map(event).collect();
        emit(&turno, &events).await;
        let relay = turno.outbox().relay(sink.clone()).mode(mode);
        let relay = relay.outage_backoff(FIRST, Duration::from_secs(15));
        let running = Running::start(relay.max_attempts(1));
        tokio::time::sleep(WINDOW).await;
        // 10 + 20 + 40 + 80 + 160 + 320 ms, with the shortest pauses.
        let calls = sink.calls();
        assert!((1..=8).contains(&calls), "{mode}: tried {calls} times");
        sink.heal();
        crate::eventually_async(TIMEOUT, "everything to arrive", async || {
            (sink.arrived() == 100).then_some(())
        })
        .await;
        let report = running.stop().await;
        assert_eq!((report.sent, report.refused, report.dead), (100, 0, 0));
    }

    let sink = Overloaded::new(
        PublishResult::Doubtful(Outage::new("503")),
        "TicketCreatedEvent",
    );
    emit(&turno, &[event(0)]).await;
    let relay = turno.outbox().relay(sink.clone());
    let running = Running::start(relay.outage_backoff(Duration::ZERO, Duration::ZERO));
    crate::eventually_async(TIMEOUT, "many tries", async || {
        (sink.calls() > 100).then_some(())
    })
    .await;
    running.stop().await;
    let waiting = list(&turno, EventState::Pending).await;
    assert!(waiting[0].doubtful >= 100, "{waiting:?}");
}

/// A full destination stops only the events of its type: they are retried one at a time, and no attempt is counted. The
/// control: as rejections, they would be dead.
#[rule]
async fn a_full_destination_stops_its_own_type_only(test_store: &TestStore) {
    const MANY: usize = 60;
    let turno = test_store.turno().await;
    let emit_both = async || {
        let events: Vec<_> = (0..MANY)
            .flat_map(|n| ["FullEvent", "FineEvent"].map(|kind| Event::new(kind, &n)))
            .collect();
        emit(&turno, &events).await;
    };
    for mode in MODES {
        let sink = Overloaded::new(
            PublishResult::Busy(Outage::new("the queue is full")),
            "FullEvent",
        );
        emit_both().await;
        let relay = turno.outbox().relay(sink.clone()).mode(mode);
        let relay = relay.outage_backoff(Duration::from_millis(20), Duration::from_secs(15));
        let running = Running::start(relay.max_attempts(1));
        crate::eventually_async(TIMEOUT, "the others to arrive", async || {
            (sink.arrived() == MANY).then_some(())
        })
        .await;
        // Those of the first batches, and then one at a time.
        let tried = sink.tried();
        assert!(tried <= MANY, "{mode}: tried {tried} events");
        assert_eq!(list(&turno, EventState::Dead).await, []);
        sink.heal();
        crate::eventually_async(TIMEOUT, "everything to arrive", async || {
            (sink.arrived() == 2 * MANY).then_some(())
        })
        .await;
        let report = running.stop().await;
        assert_eq!((report.dead, report.refused, report.outages), (0, 0, 0));
        assert_eq!(report.sent, 2 * MANY as u64);
    }

    let sink = Overloaded::new(
        PublishResult::Refused("the queue is full".into()),
        "FullEvent",
    );
    emit_both().await;
    let running = Running::start(turno.outbox().relay(sink.clone()).max_attempts(1));
    crate::eventually_async(TIMEOUT, "all of a type to be dead", async || {
        (counts(&turno).await[4] == MANY as u64).then_some(())
    })
    .await;
    running.stop().await;
}

/// A sink that is always ready, and returns the same result for the events of one type until it is healed.
#[derive(Debug)]
struct Overloaded {
    result: PublishResult,
    kind: &'static str,
    is_healed: AtomicBool,
    calls: AtomicUsize,
    tried: AtomicUsize,
    arrived: AtomicUsize,
}

impl Overloaded {
    fn new(result: PublishResult, kind: &'static str) -> Arc<Self> {
        Arc::new(Overloaded {
            result,
            kind,
            is_healed: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            tried: AtomicUsize::new(0),
            arrived: AtomicUsize::new(0),
        })
    }

    fn heal(&self) {
        self.is_healed.store(true, SeqCst);
    }

    /// Number of calls with events.
    fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }

    /// Number of events that it did not accept.
    fn tried(&self) -> usize {
        self.tried.load(SeqCst)
    }

    fn arrived(&self) -> usize {
        self.arrived.load(SeqCst)
    }
}

#[async_trait]
impl Sink for Overloaded {
    fn name(&self) -> String {
        "an overloaded sink".into()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        self.calls.fetch_add(1, SeqCst);
        let is_healed = self.is_healed.load(SeqCst);
        events
            .iter()
            .map(|event| match is_healed || event.kind != self.kind {
                true => {
                    self.arrived.fetch_add(1, SeqCst);
                    PublishResult::Sent
                }
                false => {
                    self.tried.fetch_add(1, SeqCst);
                    self.result.clone()
                }
            })
            .collect()
    }
}

/// A rejected event uses up its attempts and becomes dead; no other event is affected.
#[rule]
async fn a_refused_event_dies_alone(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for mode in MODES {
        let refuse = Act::Refuse(vec!["3".into(), "8".into()]);
        let sink = Scripted::new([refuse]);
        let ids = emit_keyed(&turno, &["a", "b", "c"], 5).await;
        let dead_before = counts(&turno).await[4];
        let running = Running::start(relay(&turno, &sink).mode(mode).max_attempts(3));
        arrived(&sink, 13).await;
        crate::eventually_async(TIMEOUT, "two dead", async || {
            (counts(&turno).await[4] == dead_before + 2).then_some(())
        })
        .await;
        let report = running.stop().await;
        assert_eq!(
            (report.sent, report.refused, report.dead),
            (13, 6, 2),
            "{mode}"
        );
        for id in [ids[3], ids[8]] {
            let dead = turno.outbox().find(id).await.unwrap().unwrap();
            assert_eq!((dead.state, dead.refused), (EventState::Dead, 3), "{mode}");
            assert_eq!(dead.errors.len(), 3);
            assert_eq!(dead.errors[2].error, "no consumer accepts it");
        }
    }
}

/// A relay with its default settings retries a rejected event for hours. Each pause is longer than the one before, up to an
/// hour.
#[rule]
async fn refused_events_are_tried_for_hours(test_store: &TestStore) {
    const DEFAULT_ATTEMPTS: u32 = 20;
    let turno = test_store.turno().await;
    let events: Vec<_> = (0..DEFAULT_ATTEMPTS).map(event).collect();
    emit(&turno, &events).await;
    let taken = take(&turno, DEFAULT_ATTEMPTS, Order::AsEmitted).await;
    settle(&turno, &settlement(&taken)).await;
    // Each has been rejected once more than the one before.
    for (refused, event) in taken.events.iter().enumerate() {
        let seq = event.seq;
        test_store
            .run(&format!(
                "update turno.inbox_item set attempts = {refused} where id = {seq}"
            ))
            .await;
    }
    let all = (0..DEFAULT_ATTEMPTS).map(|number| number.to_string());
    let sink = Scripted::new([Act::Refuse(all.collect())]);
    let began = turno::clock::machine();
    let running = Running::start(turno.outbox().relay(sink));
    let waiting = crate::eventually_async(TIMEOUT, "the last one to be dead", async || {
        let dead = list(&turno, EventState::Dead).await;
        let waiting = list(&turno, EventState::Scheduled).await;
        // Those with the shortest pauses may be due again.
        let all_refused = waiting.len() > 12;
        (dead.len() == 1 && dead[0].refused == DEFAULT_ATTEMPTS && all_refused).then_some(waiting)
    })
    .await;
    running.stop().await;
    let mut total = Duration::ZERO;
    for event in &waiting {
        let pause = Duration::try_from(event.at.unwrap().duration_since(began)).unwrap();
        assert!(pause <= Duration::from_secs(90 * 60 + 60), "{pause:?}");
        total += pause;
    }
    // About eight hours, with jitter.
    assert!(total > Duration::from_secs(4 * 60 * 60), "{total:?}");
}

/// An event that makes the sink close the connection is found by bisection, and only its attempts are counted.
#[rule]
async fn poison_is_found_by_halves(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let poison = Act::Poisoned(vec!["5".into(), "23".into()]);
    let sink = Scripted::new([poison]);
    let events: Vec<_> = (0..40).map(event).collect();
    let ids = emit(&turno, &events).await;
    let running = Running::start(relay(&turno, &sink).max_attempts(2).batch(40));
    settles_at(&turno, [0, 0, 0, 38, 2, 0]).await;
    let report = running.stop().await;
    assert_eq!((report.sent, report.refused, report.dead), (38, 4, 2));
    for (number, id) in ids.iter().enumerate() {
        let event = turno.outbox().find(*id).await.unwrap().unwrap();
        let poisoned = number == 5 || number == 23;
        let expected = if poisoned {
            EventState::Dead
        } else {
            EventState::Dispatched
        };
        assert_eq!(event.state, expected, "{number}");
    }
    let mut seen = std::collections::HashSet::new();
    for event in sink.got() {
        // Events that are published again are labelled.
        assert!(
            seen.insert(event.id) || event.possible_duplicate,
            "{event:?}"
        );
    }
}

/// The effect of a dead event on its key is configurable per type.
#[rule]
async fn a_dead_event_does_to_its_key_as_chosen(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let event =
        |kind: &str, number: u32| turno::outbox::Event::new(kind, &number).ordering_key(kind);
    let kinds = ["skip", "block", "park"];
    let events: Vec<_> = (0..3)
        .flat_map(|n| kinds.map(|kind| event(kind, n)))
        .collect();
    emit(&turno, &events).await;
    let sink = Scripted::new([Act::Refuse(vec!["0".into()])]);
    let running = Running::start(
        relay(&turno, &sink)
            .max_attempts(1)
            .on_dead(OnDead::Park)
            .on_dead_of_type("skip", OnDead::Skip)
            .on_dead_of_type("block", OnDead::Block),
    );
    settles_at(&turno, [2, 0, 0, 2, 4, 1]).await;
    running.stop().await;
    let got: Vec<_> = sink.got().into_iter().map(|event| event.kind).collect();
    assert_eq!(got, ["skip", "skip"]);
}

/// The next relay publishes the events in flight of a lost relay, labelled.
#[rule]
async fn a_vanished_relay_is_followed_by_another(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for mode in MODES {
        let stuck: Arc<Stuck> = Arc::default();
        let ids = emit_keyed(&turno, &["a", "b"], 2).await;
        let lost = turno.outbox().relay(stuck.clone()).mode(mode).name("lost");
        // A short lease: a claim that was sent when the relay was lost expires by itself.
        let lost = Running::start(lost.lease(Duration::from_secs(2)));
        stuck.began.notified().await;
        lost.vanish().await;
        if mode != Mode::Single {
            test_store.expire_claims().await;
        }
        let sink = Scripted::new([]);
        let running = Running::start(relay(&turno, &sink).mode(mode));
        arrived(&sink, 4).await;
        running.stop().await;
        let got = sink.got();
        assert_eq!(got.len(), ids.len(), "{mode}");
        assert!(
            got.iter().filter(|event| event.possible_duplicate).count() >= 2,
            "{mode}"
        );
        assert!(got.iter().all(|event| event.attempt == 1), "{mode}");
    }
}

/// Of two relays in mode single, one is active and the other waits; it takes over when the first has ended.
#[rule]
async fn one_relay_at_a_time(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (one, two) = (Scripted::new([]), Scripted::new([]));
    let first = Running::start(relay(&turno, &one).mode(Mode::Single).name("one"));
    emit(&turno, &[event(1)]).await;
    arrived(&one, 1).await;
    let second = Running::start(
        relay(&test_store.turno().await, &two)
            .mode(Mode::Single)
            .name("two"),
    );
    let more: Vec<_> = (2..50).map(event).collect();
    emit(&turno, &more).await;
    arrived(&one, 49).await;
    assert!(two.got().is_empty());
    first.stop().await;
    emit(&turno, &[event(50)]).await;
    arrived(&two, 1).await;
    second.stop().await;
    assert_eq!(two.payloads(), ["50"]);
}

/// On shutdown, a relay finishes events in flight and gives the others back.
#[rule]
async fn a_relay_gives_back_when_it_stops(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let events: Vec<_> = (0..100).map(event).collect();
    emit(&turno, &events).await;
    let sink = Scripted::new([]);
    let running = Running::start(relay(&turno, &sink).batch(10));
    arrived(&sink, 10).await;
    let report = running.stop().await;
    assert_eq!(report.sent as usize, sink.got().len());
    let left = counts(&turno).await;
    assert_eq!(left[2], 0, "nothing is held");
    assert_eq!(left[0] + left[3], 100);
}

/// A sink that never responds.
#[derive(Debug, Default)]
struct Stuck {
    began: tokio::sync::Notify,
}

#[async_trait::async_trait]
impl turno::sink::Sink for Stuck {
    fn name(&self) -> String {
        "a sink that never answers".into()
    }

    async fn ready(&self) -> Result<(), turno::sink::Outage> {
        Ok(())
    }

    async fn publish(&self, _: &[turno::sink::Outgoing]) -> Vec<turno::sink::PublishResult> {
        self.began.notify_one();
        std::future::pending().await
    }
}
