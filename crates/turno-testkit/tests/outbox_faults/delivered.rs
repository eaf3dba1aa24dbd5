//! Everything at once: relays killed, the broker and the database restarted, poisoned and unroutable events among the
//! others, transactions that roll back. Nothing is lost, nothing arrives that was never committed, no key is out of order,
//! and the consumer's table has each event once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use turno::outbox::{Event, EventState};
use turno_testkit::server::RabbitMq;
use turno_testkit::{PostgresServer, eventually};
use uuid::Uuid;

use crate::LONG;
use crate::consumer::{Arrival, Consumer, Queue, Seen};
use crate::place::{End, Place};
use crate::relay::{EXCHANGE, How, ORDERED, Relay};

const EVENTS: usize = 50_000;
const KEYS: usize = 500;
const RELAYS: usize = 4;
const KILLS: usize = 20;
/// Events of one transaction, and of so many transactions one that rolls back.
const TOGETHER: usize = 100;
const ROLLED_BACK: usize = 10;
/// Of so many events, one is poisoned and one unroutable.
const BAD: usize = 1000;
/// What the broker takes at the most, and what a poisoned event has.
const BROKER: &str = "max_message_size = 65536\n";
const POISON_BYTES: usize = 70_000;

#[test]
fn everything_is_delivered_postgres() {
    let server = PostgresServer::start().expect("PostgreSQL starts");
    let place = Place::on(&server);
    let restart = || server.restart().expect("PostgreSQL starts again");
    everything_is_delivered(&place, Some(&restart));
}

#[test]
fn everything_is_delivered_sqlite() {
    everything_is_delivered(&Place::sqlite(), None);
}

/// The control: a relay that does not wait for confirmations loses events when the broker is killed.
#[test]
fn without_confirmations_events_are_lost() {
    let place = Place::postgres();
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let consumer = Consumer::from(Queue::Classic, &place, &broker.url(), EXCHANGE, Seen::Asked);
    let how = How {
        mode: "parallel",
        confirms: "unconfirmed",
        ..ORDERED
    };
    let _relay = Relay::start(&place.url, &broker.url(), EXCHANGE, how);
    let mut numbers = HashMap::new();
    for round in 0..3 {
        for some in 0..20 {
            place.emit(&good_events(&mut numbers, round * 20 + some), End::Commit);
        }
        let so_far = consumer.count();
        eventually(LONG, "the consumer to get some", || {
            (consumer.count() > so_far).then_some(())
        });
        broker.kill_9().unwrap();
        // Written to a socket that nobody reads from any more.
        place.emit(&good_events(&mut numbers, 1000 + round), End::Commit);
        broker.restart().unwrap();
    }
    let emitted: u64 = numbers.values().sum::<i64>().try_into().unwrap();
    place.await_stats("everything to be taken for sent", |stats| {
        stats.dispatched == emitted
    });
    // What still comes after a marker that came through is not to be expected.
    let marker = vec![event("marker", 0)];
    place.emit(&marker, End::Commit);
    eventually(LONG, "the marker", || {
        consumer
            .arrivals()
            .iter()
            .any(|arrival| arrival.key == "marker")
            .then_some(())
    });
    let arrived: HashSet<Uuid> = consumer
        .arrivals()
        .iter()
        .map(|arrival| arrival.event)
        .collect();
    let lost = emitted as i64 + 1 - arrived.len() as i64;
    println!("without confirmations: {lost} of {emitted} events lost");
    assert!(lost > 0, "nothing was lost without confirmations");
}

/// The control: a consumer that does not ask whether it has seen an event handles some twice.
#[test]
fn without_seen_events_are_handled_twice() {
    let place = Place::postgres();
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let consumer = Consumer::start(&place, &broker.url(), EXCHANGE, Seen::NotAsked);
    let mut numbers = HashMap::new();
    let doubled = || {
        let handled = place.handled();
        let once: HashSet<&str> = handled.iter().map(|one| one.event.as_str()).collect();
        handled.len() - once.len()
    };
    // Killed in the middle of publishing until it shows; at the first or second time, usually.
    let mut round = 0;
    while doubled() == 0 {
        assert!(round < 50, "nothing was doubled in {round} rounds");
        let relay = Relay::start(&place.url, &broker.url(), EXCHANGE, ORDERED);
        for some in 0..10 {
            place.emit(&good_events(&mut numbers, round * 10 + some), End::Commit);
        }
        let so_far = consumer.count();
        eventually(LONG, "the consumer to get some", || {
            (consumer.count() > so_far).then_some(())
        });
        relay.process().kill_9();
        let relay = Relay::start(&place.url, &broker.url(), EXCHANGE, ORDERED);
        place.await_stats("all to be sent", |stats| {
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

fn everything_is_delivered(place: &Place, restart_database: Option<&dyn Fn()>) {
    let broker = RabbitMq::start_with(BROKER).expect("RabbitMQ starts");
    let url = broker.url();
    let consumer = Consumer::start(place, &url, EXCHANGE, Seen::Asked);
    // Awaited, as whoever supervises it would: one that finds the database away while it starts gives up, and one that is
    // told to end before it listens to that says nothing.
    let start = || Relay::start(&place.url, &url, EXCHANGE, ORDERED);
    let mut relays: Vec<Relay> = (0..RELAYS).map(|_| start()).collect();
    let began = Instant::now();
    let mut emitter = Emitter::default();
    // Half of it while the relays are killed and the broker restarted; the rest before the database goes.
    let mut kills = 0;
    let mut broker_restarts = 0;
    let mut database_restarted = restart_database.is_none();
    loop {
        if emitter.emitted < EVENTS {
            for _ in 0..10 {
                emitter.emit_some(place);
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
            let over = place
                .try_stats()
                .is_some_and(|stats| stats.pending + stats.scheduled + stats.processing == 0);
            if over && kills == KILLS && broker_restarts == 2 && database_restarted {
                break;
            }
            assert!(
                began.elapsed() < LONG,
                "still {:?} after {kills} kills",
                place.try_stats()
            );
            eventually(LONG, "the next look", {
                let next = Instant::now() + std::time::Duration::from_millis(20);
                move || (Instant::now() >= next).then_some(())
            });
        }
    }
    let expected = emitter.good.len();
    eventually(LONG, "the consumer to catch up", || {
        (place.handled().len() >= expected).then_some(())
    });
    let took = began.elapsed();
    for relay in &relays {
        relay.end();
    }
    judge(place, &emitter, &consumer.arrivals());
    println!(
        "{}: {} events over {KEYS} keys in {took:?}; {kills} kills, {broker_restarts} broker restarts, database restarted: {}",
        place.name,
        emitter.emitted,
        restart_database.is_some(),
    );
}

fn judge(place: &Place, emitter: &Emitter, arrivals: &[Arrival]) {
    let handled = place.handled();
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
    let mut again = 0;
    let mut unlabelled = 0;
    for arrival in arrivals {
        if !met.insert(arrival.event) {
            again += 1;
            unlabelled += usize::from(!arrival.labelled && !arrival.redelivered);
        }
    }
    println!(
        "{}: lost {lost}, arrived though rolled back {ghosts}, out of order {inversions}, handled twice {doubled}; \
         {again} arrivals more than once, {unlabelled} of them unlabelled",
        place.name
    );
    assert_eq!((lost, ghosts, inversions, doubled), (0, 0, 0, 0));
    assert_eq!(handled.len(), emitter.good.len());
    let dead: BTreeSet<String> = place
        .list(EventState::Dead)
        .into_iter()
        .map(|event| event.key.unwrap_or_default())
        .collect();
    let stats = place.stats();
    assert_eq!(
        stats.dead as usize, emitter.bad,
        "exactly the bad ones are dead: {dead:?}"
    );
    assert_eq!(stats.dispatched as usize, emitter.good.len());
}

/// What was emitted, and is to arrive.
#[derive(Default)]
struct Emitter {
    emitted: usize,
    transactions: usize,
    /// The key and the number of every event that has to arrive.
    good: Vec<(String, i64)>,
    /// How many are to die.
    bad: usize,
    numbers: HashMap<String, i64>,
}

impl Emitter {
    /// One transaction.
    fn emit_some(&mut self, place: &Place) {
        self.transactions += 1;
        if self.transactions.is_multiple_of(ROLLED_BACK) {
            let never: Vec<Event> = (0..TOGETHER)
                .map(|n| event(&format!("rolled-back-{}", n % KEYS), 0))
                .collect();
            place.emit(&never, End::RollBack);
        }
        let events: Vec<Event> = (0..TOGETHER).map(|_| self.next()).collect();
        place.emit(&events, End::Commit);
    }

    fn next(&mut self) -> Event {
        let place = self.emitted;
        self.emitted += 1;
        let key = format!("k{}", place % KEYS);
        let number = self.numbers.entry(key.clone()).or_insert(0);
        let number = std::mem::replace(number, *number + 1);
        match place % BAD {
            7 => {
                self.bad += 1;
                let padding = "x".repeat(POISON_BYTES);
                let payload = serde_json::json!({"key": key, "number": number, "padding": padding});
                Event::new("TicketCreatedEvent", &payload).ordering_key(key)
            }
            500 => {
                self.bad += 1;
                let payload = serde_json::json!({"key": key, "number": number});
                Event::new("NobodyListensEvent", &payload).ordering_key(key)
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

/// A transaction's worth of good events.
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
