//! One relay at a time: the second says who is at work, and takes over within two seconds when that one is killed, and soon
//! when it stands still.

use std::time::{Duration, Instant};

use turno::outbox::Event;
use turno_testkit::eventually;

use crate::consumer::{Consumer, Seen};
use crate::place::{End, Place, client, shared_broker, sqlite};
use crate::relay::{How, ORDERED, Relay};
use crate::{LONG, on_each_store};

const SINGLE: How = How {
    mode: "single",
    // Long: whoever takes over does not wait for the end of claims.
    lease: Duration::from_secs(60),
    batch: 50,
    ..ORDERED
};
/// The lock of those that relay alone, unless said otherwise.
const LOCK_ID: i64 = 42;
/// How long a takeover may take.
const TAKEOVER: Duration = Duration::from_secs(2);
/// Longer than a relay that stands still is waited for.
const FROZEN: Duration = Duration::from_secs(7);

on_each_store! {
    the_second_relay_takes_over => the_second_relay_takes_over;
    a_frozen_relay_gives_way => a_frozen_relay_gives_way;
    without_an_end_a_frozen_relay_stays => without_an_end_a_frozen_relay_stays;
}

/// Emits so many, which are in order from a number on.
fn emit(place: &Place, number: i64, many: i64) {
    let events: Vec<Event> = (number..number + many)
        .map(|number| {
            let payload = serde_json::json!({"key": "k", "number": number});
            Event::new("TicketCreatedEvent", &payload).ordering_key("k")
        })
        .collect();
    place.emit(&events, End::Commit);
}

fn the_second_relay_takes_over(place: &Place) {
    let broker = shared_broker().url();
    let exchange = format!("single.{}", place.name);
    let consumer = Consumer::start(place, &broker, &exchange, Seen::Asked);
    let first = Relay::start(&place.url, &broker, &exchange, SINGLE);
    emit(place, 0, 10);
    place.await_stats("the first relay's work", |stats| stats.dispatched == 10);
    let second = Relay::start(&place.url, &broker, &exchange, SINGLE);
    // It says who has the lock: the other one's name has its process in it.
    let who = second
        .process()
        .lines()
        .expect_line("another relay is at work", LONG);
    assert!(who.contains(&first.process().id().to_string()), "{who}");
    emit(place, 10, 5000);
    eventually(LONG, "the first relay to be in the middle", || {
        (consumer.count() > 100).then_some(())
    });
    first.process().kill_9();
    let killed = Instant::now();
    second
        .process()
        .lines()
        .expect_line("the only relay now", LONG);
    let took = killed.elapsed();
    println!("{}: taken over within {took:?}", place.name);
    assert!(took < TAKEOVER, "taken over after {took:?}");
    place.await_stats("everything to be sent", |stats| stats.dispatched == 5010);
    eventually(LONG, "everything to be handled", || {
        (place.handled().len() == 5010).then_some(())
    });
    let numbers: Vec<i64> = place.handled().iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted(), "as emitted");
    second.end();
}

/// Stops a relay, but not in the middle of a transaction, where that would keep everybody from writing to the file.
fn freeze(place: &Place, relay: &Relay) {
    let held = place.file().map(|file| {
        let db = sqlite(&file);
        db.execute_batch("begin immediate").unwrap();
        db
    });
    relay.process().stop();
    let state = format!("/proc/{}/stat", relay.process().id());
    eventually(LONG, "a relay that stands still", || {
        let state = std::fs::read_to_string(&state).unwrap();
        state.contains(") T ").then_some(())
    });
    drop(held);
}

/// A process that stands still keeps its connections, and must not keep the others from working; when it wakes up, it waits for
/// its turn.
fn a_frozen_relay_gives_way(place: &Place) {
    let broker = shared_broker().url();
    let exchange = format!("frozen.{}", place.name);
    let _consumer = Consumer::start(place, &broker, &exchange, Seen::Asked);
    let first = Relay::start(&place.url, &broker, &exchange, SINGLE);
    emit(place, 0, 10);
    place.await_stats("the first relay's work", |stats| stats.dispatched == 10);
    let second = Relay::start(&place.url, &broker, &exchange, SINGLE);
    let is_waiting = |relay: &Relay| {
        relay
            .process()
            .lines()
            .expect_line("another relay is at work", LONG)
    };
    is_waiting(&second);
    freeze(place, &first);
    emit(place, 10, 100);
    place.await_stats("the second relay's work", |stats| stats.dispatched == 110);
    first.process().cont();
    is_waiting(&first);
    emit(place, 110, 10);
    place.await_stats("everything to be sent", |stats| stats.dispatched == 120);
    eventually(LONG, "everything to be handled", || {
        (place.handled().len() == 120).then_some(())
    });
    second.end();
    first.end();
}

/// The control: somebody who stands still, and holds the same lock without what ends it. It is a session that may be silent for
/// ever; and, where there is none, a lease of an hour.
fn without_an_end_a_frozen_relay_stays(place: &Place) {
    let broker = shared_broker().url();
    let exchange = format!("stays.{}", place.name);
    let _consumer = Consumer::start(place, &broker, &exchange, Seen::Asked);
    let lock = format!("turno/outbox/relay/{LOCK_ID}");
    let lease = place.turno.lock(&lock).ttl(Duration::from_secs(3600));
    let (session, lease) = place.runtime.block_on(async {
        if place.file().is_some() {
            return (None, lease.acquire().await.unwrap().acquired());
        }
        let session = client(&place.url).await.unwrap();
        let hold = format!("select pg_advisory_lock({LOCK_ID})");
        session.batch_execute(&hold).await.unwrap();
        (Some(session), None)
    });
    let relay = Relay::start(&place.url, &broker, &exchange, SINGLE);
    let lines = relay.process().lines();
    lines.expect_line("another relay is at work", LONG);
    emit(place, 0, 10);
    std::thread::sleep(FROZEN);
    assert_eq!(place.stats().dispatched, 0, "nobody has given way");
    drop(session);
    if let Some(lease) = lease {
        place.runtime.block_on(lease.release()).unwrap();
    }
    place.await_stats("everything to be sent", |stats| stats.dispatched == 10);
    relay.end();
}
