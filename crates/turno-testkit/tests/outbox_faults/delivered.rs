//! All faults together: relays are killed, the broker and the database restarted, some events are poisoned or unroutable,
//! some transactions roll back. No event is lost, none arrives that was not committed, the order of each key is kept,
//! and the consumer's table has each event once.

use std::collections::HashMap;
use std::time::Instant;

use turno_testkit::faults::FromStore as _;
use turno_testkit::history::outbox::{COMMITTED, LABELS};
use turno_testkit::server::RabbitMq;
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;
use crate::consumer::{Consumer, Duplicates, Queue};
use crate::fixture::{End, Fixture, Recorded, name};
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
            fixture.emit_recorded(good_events(&mut numbers, round * 20 + some), End::Commit);
        }
        let so_far = consumer.count();
        eventually(LONG, "the consumer to get some", || {
            (consumer.count() > so_far).then_some(())
        });
        broker.kill_9().unwrap();
        // Written to a socket that the broker does not read any more.
        fixture.emit_recorded(good_events(&mut numbers, 1000 + round), End::Commit);
        broker.restart().unwrap();
        let markers = round as i64;
        let emitted: u64 = (numbers.values().sum::<i64>() + markers)
            .try_into()
            .unwrap();
        fixture.await_stats("everything to be taken for sent", |stats| {
            stats.dispatched == emitted
        });
        // After this marker has arrived, no earlier event can arrive.
        fixture.emit_recorded(vec![event("marker", markers)], End::Commit);
        let marker = name("marker", markers);
        eventually(LONG, "the marker", || {
            consumer.has_received(&marker).then_some(())
        });
        // Of the history, not of the consumer's table, which may have the marker a moment later.
        let violations = fixture.recorded_violations();
        let lost = violations
            .iter()
            .filter(|broken| broken.promise == COMMITTED);
        let lost = lost.count();
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
        let violations = fixture.handled_violations();
        violations
            .iter()
            .filter(|broken| broken.promise == LABELS)
            .count()
    };
    // The relay is killed while it publishes, until it happens; usually in the first or second round.
    let mut round = 0;
    while doubled() == 0 {
        assert!(round < 50, "nothing was doubled in {round} rounds");
        let relay = Relay::start(&fixture.url, &broker.url(), EXCHANGE, ORDERED);
        for some in 0..10 {
            fixture.emit_recorded(good_events(&mut numbers, round * 10 + some), End::Commit);
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
    eventually(LONG, "the consumer to catch up", || {
        (fixture.handled().len() >= emitter.good).then_some(())
    });
    let took = began.elapsed();
    for relay in &relays {
        relay.end();
    }
    assert_eq!(fixture.violations(), []);
    let stats = fixture.stats();
    let (dead, dispatched) = (stats.dead as usize, stats.dispatched as usize);
    assert_eq!((dead, dispatched), (emitter.bad, emitter.good));
    println!(
        "{}: {} events over {KEYS} keys in {took:?}; {kills} kills, {broker_restarts} broker restarts, database restarted: {}",
        fixture.name,
        emitter.emitted,
        restart_database.is_some(),
    );
}

/// Emitted events, and those that must arrive.
#[derive(Default)]
struct Emitter {
    emitted: usize,
    transactions: usize,
    /// Number of events that must arrive.
    good: usize,
    /// Number of events that must become dead.
    bad: usize,
    numbers: HashMap<String, i64>,
}

impl Emitter {
    /// Emits the events of one transaction.
    fn emit_some(&mut self, fixture: &Fixture) {
        self.transactions += 1;
        if self.transactions.is_multiple_of(ROLLED_BACK) {
            let number = self.transactions as i64;
            let never = (0..TOGETHER)
                .map(|n| event(&format!("rolled-back-{n}"), number))
                .collect();
            fixture.emit_recorded(never, End::RollBack);
        }
        let events = (0..TOGETHER).map(|_| self.next()).collect();
        fixture.emit_recorded(events, End::Commit);
    }

    fn next(&mut self) -> Recorded {
        let fixture = self.emitted;
        self.emitted += 1;
        let key = format!("k{}", fixture % KEYS);
        let number = self.numbers.entry(key.clone()).or_insert(0);
        let number = std::mem::replace(number, *number + 1);
        match fixture % BAD {
            7 => {
                self.bad += 1;
                Recorded::new("TicketCreatedEvent", &key, number, POISON_BYTES)
            }
            500 => {
                self.bad += 1;
                Recorded::new("UnroutableEvent", &key, number, 0)
            }
            _ => {
                self.good += 1;
                event(&key, number)
            }
        }
    }
}

fn event(key: &str, number: i64) -> Recorded {
    Recorded::new("TicketCreatedEvent", key, number, 0)
}

/// Returns the valid events of one transaction.
fn good_events(numbers: &mut HashMap<String, i64>, round: usize) -> Vec<Recorded> {
    (0..TOGETHER)
        .map(|n| {
            let key = format!("k{}", (round + n) % KEYS);
            let number = numbers.entry(key.clone()).or_insert(0);
            let number = std::mem::replace(number, *number + 1);
            event(&key, number)
        })
        .collect()
}
