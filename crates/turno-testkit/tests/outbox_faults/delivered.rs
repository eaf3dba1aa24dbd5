//! All faults together: relays are killed, the broker and the database restarted, some events are poisoned or unroutable,
//! some transactions roll back. No event is lost, none arrives that was not committed, the order of each key is kept,
//! and the consumer's table has each event once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use turno::outbox::{Event, EventState};
use turno_testkit::faults::FromStore as _;
use turno_testkit::server::RabbitMq;
use turno_testkit::{PostgresServer, eventually};
use uuid::Uuid;

use crate::LONG;
use crate::consumer::{Arrival, Consumer, Duplicates, Queue};
use crate::fixture::{End, Fixture};
use crate::relay::{EXCHANGE, ORDERED, Options, Relay};

const EVENTS: usize = 50_000;
const KEYS: usize = 500;
const RELAYS: usize = 4;
const KILLS: usize = 20;
/// Number of events per transaction, and number of transactions per rollback.
const TOGETHER: usize = 100;
const ROLLED_BACK: usize = 10;
/// Number of events per poisoned and per unroutable one.
const BAD: usize = 1000;
/// Maximum message size of the broker. A poisoned event exceeds it.
const BROKER: &str = "max_message_size = 65536\n";
const POISON_BYTES: usize = 70_000;

#[test]
fn everything_is_delivered_postgres() {
    let server = PostgresServer::start().expect("PostgreSQL starts");
    let fixture = Fixture::on(&server);
    let restart = || server.restart().expect("PostgreSQL starts again");
    everything_is_delivered(&fixture, Some(&restart));
}

#[test]
fn everything_is_delivered_sqlite() {
    everything_is_delivered(&Fixture::sqlite(), None);
}

/// The control: a relay that does not wait for confirms loses events when the broker is killed.
#[test]
fn without_confirmations_events_are_lost() {
    let fixture = Fixture::postgres();
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let consumer = Consumer::from(
        Queue::Classic,
        &fixture,
        &broker.url(),
        EXCHANGE,
        Duplicates::Detected,
    );
    let options = Options {
        mode: "parallel",
        confirms: "unconfirmed",
        ..ORDERED
    };
    let _relay = Relay::start(&fixture.url, &broker.url(), EXCHANGE, options);
    let mut numbers = HashMap::new();
    // The broker is killed until it happens; usually in the first or second round.
    for round in 0..20 {
        for some in 0..20 {
            fixture.emit(&good_events(&mut numbers, round * 20 + some), End::Commit);
        }
        let so_far = consumer.count();
        eventually(LONG, "the consumer to get some", || {
            (consumer.count() > so_far).then_some(())
        });
        broker.kill_9().unwrap();
        // Written to a socket that the broker does not read any more.
        fixture.emit(&good_events(&mut numbers, 1000 + round), End::Commit);
        broker.restart().unwrap();
        let markers = round as i64;
        let emitted: u64 = (numbers.values().sum::<i64>() + markers)
            .try_into()
            .unwrap();
        fixture.await_stats("everything to be taken for sent", |stats| {
            stats.dispatched == emitted
        });
        // After this marker has arrived, no earlier event can arrive.
        fixture.emit(&[event("marker", markers)], End::Commit);
        let is_marker = |arrival: &Arrival| arrival.key == "marker" && arrival.number == markers;
        eventually(LONG, "the marker", || {
            consumer.arrivals().iter().any(is_marker).then_some(())
        });
        let arrived: HashSet<Uuid> = consumer
            .arrivals()
            .iter()
            .map(|arrival| arrival.event)
            .collect();
        let lost = emitted as i64 + 1 - arrived.len() as i64;
        if lost > 0 {
            println!("without confirmations: {lost} of {emitted} events lost");
            return;
        }
    }
    panic!("nothing was lost without confirmations");
}

/// The control: a consumer that does not check whether it has processed an event handles some twice.
#[test]
fn without_seen_events_are_handled_twice() {
    let fixture = Fixture::postgres();
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let consumer = Consumer::start(&fixture, &broker.url(), EXCHANGE, Duplicates::Undetected);
    let mut numbers = HashMap::new();
    let doubled = || {
        let handled = fixture.handled();
        let once: HashSet<&str> = handled.iter().map(|one| one.event.as_str()).collect();
        handled.len() - once.len()
    };
    // The relay is killed while it publishes, until it happens; usually in the first or second round.
    let mut round = 0;
    while doubled() == 0 {
        assert!(round < 50, "nothing was doubled in {round} rounds");
        let relay = Relay::start(&fixture.url, &broker.url(), EXCHANGE, ORDERED);
        for some in 0..10 {
            fixture.emit(&good_events(&mut numbers, round * 10 + some), End::Commit);
        }
        let so_far = consumer.count();
        eventually(LONG, "the consumer to get some", || {
            (consumer.count() > so_far).then_some(())
        });
        relay.process().kill_9();
        let relay = Relay::start(&fixture.url, &broker.url(), EXCHANGE, ORDERED);
        fixture.await_stats("all to be sent", |stats| {
            stats.pending + stats.processing == 0
        });
        relay.end();
        round += 1;
    }
    println!(
        "without seen: {} events handled twice after {round} rounds",
        doubled()
    );
}

fn everything_is_delivered(fixture: &Fixture, restart_database: Option<&dyn Fn()>) {
    let broker = RabbitMq::start_with(BROKER).expect("RabbitMQ starts");
    let url = broker.url();
    let consumer = Consumer::start(fixture, &url, EXCHANGE, Duplicates::Detected);
    // Each start waits for `ready`, as a supervisor does: a relay that starts while the database is down exits, and one that
    // gets SIGTERM before it handles signals prints no report.
    let start = || Relay::start(&fixture.url, &url, EXCHANGE, ORDERED);
    let mut relays: Vec<Relay> = (0..RELAYS).map(|_| start()).collect();
    let began = Instant::now();
    let mut emitter = Emitter::default();
    // The first half while relays are killed and the broker is restarted; the second before the restart of the database.
    let mut kills = 0;
    let mut broker_restarts = 0;
    let mut database_restarted = restart_database.is_none();
    loop {
        if emitter.emitted < EVENTS {
            for _ in 0..10 {
                emitter.emit_some(fixture);
            }
        }
        let handled = consumer.count();
        if kills < KILLS && handled >= (kills + 1) * EVENTS / (KILLS + 4) {
            let victim = &mut relays[kills % RELAYS];
            victim.process().kill_9();
            *victim = start();
            kills += 1;
        }
        if broker_restarts < 2 && handled >= (broker_restarts + 1) * EVENTS / 4 {
            broker.restart().unwrap();
            broker_restarts += 1;
        }
        if !database_restarted && emitter.emitted >= EVENTS && handled >= EVENTS * 3 / 4 {
            if let Some(restart) = restart_database {
                restart();
            }
            database_restarted = true;
        }
        if emitter.emitted >= EVENTS {
            let over = fixture
                .try_stats()
                .is_some_and(|stats| stats.pending + stats.scheduled + stats.processing == 0);
            if over && kills == KILLS && broker_restarts == 2 && database_restarted {
                break;
            }
            assert!(
                began.elapsed() < LONG,
                "still {:?} after {kills} kills",
                fixture.try_stats()
            );
            eventually(LONG, "the next look", {
                let next = Instant::now() + std::time::Duration::from_millis(20);
                move || (Instant::now() >= next).then_some(())
            });
        }
    }
    let expected = emitter.good.len();
    eventually(LONG, "the consumer to catch up", || {
        (fixture.handled().len() >= expected).then_some(())
    });
    let took = began.elapsed();
    for relay in &relays {
        relay.end();
    }
    judge(fixture, &emitter, &consumer.arrivals());
    println!(
        "{}: {} events over {KEYS} keys in {took:?}; {kills} kills, {broker_restarts} broker restarts, database restarted: {}",
        fixture.name,
        emitter.emitted,
        restart_database.is_some(),
    );
}

fn judge(fixture: &Fixture, emitter: &Emitter, arrivals: &[Arrival]) {
    let handled = fixture.handled();
    let names: HashSet<(&str, i64)> = handled
        .iter()
        .map(|one| (one.key.as_str(), one.number))
        .collect();
    let lost = emitter
        .good
        .iter()
        .filter(|(key, number)| !names.contains(&(key.as_str(), *number)))
        .count();
    let ghosts = arrivals
        .iter()
        .filter(|arrival| arrival.key.starts_with("rolled-back"))
        .count();
    let doubled = handled.len() - names.len();
    let mut inversions = 0;
    let mut last: HashMap<&str, i64> = HashMap::new();
    for one in &handled {
        let before = last.insert(&one.key, one.number).unwrap_or(-1);
        inversions += usize::from(one.number <= before);
    }
    let mut met = HashSet::new();
    let mut first_copies = HashSet::new();
    let mut again = 0;
    let mut unlabelled = Vec::new();
    for arrival in arrivals {
        again += usize::from(!met.insert(arrival.event));
        // One copy has no label. It need not arrive first: the broker may read what a killed relay has sent after the labelled copy of
        // another one.
        let is_published = !arrival.labelled && !arrival.redelivered;
        if is_published && !first_copies.insert(arrival.event) {
            unlabelled.push(arrival.event);
        }
    }
    let copies: Vec<&Arrival> = arrivals
        .iter()
        .filter(|arrival| unlabelled.contains(&arrival.event))
        .collect();
    let unlabelled = unlabelled.len();
    println!(
        "{}: lost {lost}, arrived though rolled back {ghosts}, out of order {inversions}, handled twice {doubled}; \
         {again} arrivals more than once, {unlabelled} of them unlabelled",
        fixture.name
    );
    assert_eq!((lost, ghosts, inversions, doubled), (0, 0, 0, 0));
    assert_eq!(
        unlabelled, 0,
        "of {again} that arrived more than once: {copies:?}"
    );
    assert_eq!(handled.len(), emitter.good.len());
    let dead: BTreeSet<String> = fixture
        .list(EventState::Dead)
        .into_iter()
        .map(|event| event.key.unwrap_or_default())
        .collect();
    let stats = fixture.stats();
    assert_eq!(
        stats.dead as usize, emitter.bad,
        "exactly the bad ones are dead: {dead:?}"
    );
    assert_eq!(stats.dispatched as usize, emitter.good.len());
}

/// Emitted events, and those that must arrive.
#[derive(Default)]
struct Emitter {
    emitted: usize,
    transactions: usize,
    /// Key and number of every event that must arrive.
    good: Vec<(String, i64)>,
    /// Number of events that must become dead.
    bad: usize,
    numbers: HashMap<String, i64>,
}

impl Emitter {
    /// Emits the events of one transaction.
    fn emit_some(&mut self, fixture: &Fixture) {
        self.transactions += 1;
        if self.transactions.is_multiple_of(ROLLED_BACK) {
            let never: Vec<Event> = (0..TOGETHER)
                .map(|n| event(&format!("rolled-back-{}", n % KEYS), 0))
                .collect();
            fixture.emit(&never, End::RollBack);
        }
        let events: Vec<Event> = (0..TOGETHER).map(|_| self.next()).collect();
        fixture.emit(&events, End::Commit);
    }

    fn next(&mut self) -> Event {
        let fixture = self.emitted;
        self.emitted += 1;
        let key = format!("k{}", fixture % KEYS);
        let number = self.numbers.entry(key.clone()).or_insert(0);
        let number = std::mem::replace(number, *number + 1);
        match fixture % BAD {
            7 => {
                self.bad += 1;
                let padding = "x".repeat(POISON_BYTES);
                let payload = serde_json::json!({"key": key, "number": number, "padding": padding});
                Event::new("TicketCreatedEvent", &payload).ordering_key(key)
            }
            500 => {
                self.bad += 1;
                let payload = serde_json::json!({"key": key, "number": number});
                Event::new("UnroutableEvent", &payload).ordering_key(key)
            }
            _ => {
                self.good.push((key.clone(), number));
                event(&key, number)
            }
        }
    }
}

fn event(key: &str, number: i64) -> Event {
    let payload = serde_json::json!({"key": key, "number": number});
    Event::new("TicketCreatedEvent", &payload).ordering_key(key)
}

/// Returns the valid events of one transaction.
fn good_events(numbers: &mut HashMap<String, i64>, round: usize) -> Vec<Event> {
    (0..TOGETHER)
        .map(|n| {
            let key = format!("k{}", (round + n) % KEYS);
            let number = numbers.entry(key.clone()).or_insert(0);
            let number = std::mem::replace(number, *number + 1);
            event(&key, number)
        })
        .collect()
}
