//! One relay at a time: the second one reports which relay is active. It takes over within two seconds if that relay is killed,
//! and soon if it is frozen.

use std::time::{Duration, Instant};

use turno::outbox::Event;
use turno_testkit::faults::{client, sqlite};
use turno_testkit::{Sql as _, eventually, on_each_store};

use crate::LONG;
use crate::consumer::{Consumer, Duplicates};
use crate::fixture::{End, Fixture, shared_broker};
use crate::relay::{ORDERED, Options, Relay};

const SINGLE: Options = Options {
    mode: "single",
    // Long: a takeover does not wait for the end of claims.
    lease: Duration::from_secs(60),
    batch: 50,
    ..ORDERED
};
/// Default lock id of a relay that runs alone.
const LOCK_ID: i64 = 42;
/// Maximum duration of a takeover.
const TAKEOVER: Duration = Duration::from_secs(2);
/// Longer than the time after which a frozen relay is replaced.
const FROZEN: Duration = Duration::from_secs(7);

on_each_store! {
    the_second_relay_takes_over => the_second_relay_takes_over;
    a_frozen_relay_gives_way => a_frozen_relay_gives_way;
    without_an_end_a_frozen_relay_stays => without_an_end_a_frozen_relay_stays;
}

/// Emits `many` events, numbered from `number` on.
fn emit(fixture: &Fixture, number: i64, many: i64) {
    let events: Vec<Event> = (number..number + many)
        .map(|number| {
            let payload = serde_json::json!({"key": "k", "number": number});
            Event::new("TicketCreatedEvent", &payload).ordering_key("k")
        })
        .collect();
    fixture.emit(&events, End::Commit);
}

fn the_second_relay_takes_over(fixture: &Fixture) {
    let broker = shared_broker().url();
    let exchange = format!("single.{}", fixture.name);
    let consumer = Consumer::start(fixture, &broker, &exchange, Duplicates::Detected);
    let first = Relay::start(&fixture.url, &broker, &exchange, SINGLE);
    emit(fixture, 0, 10);
    fixture.await_stats("the first relay's work", |stats| stats.dispatched == 10);
    let second = Relay::start(&fixture.url, &broker, &exchange, SINGLE);
    // It reports who has the lock: the name of the other relay contains its process id.
    let who = second
        .process()
        .lines()
        .expect_line("another relay is at work", LONG);
    assert!(who.contains(&first.process().id().to_string()), "{who}");
    emit(fixture, 10, 5000);
    eventually(LONG, "the first relay to be in the middle", || {
        (consumer.count() > 100).then_some(())
    });
    first.process().kill_9();
    let killed = Instant::now();
    second
        .process()
        .lines()
        .expect_line("this relay is the leader", LONG);
    let took = killed.elapsed();
    println!("{}: taken over within {took:?}", fixture.name);
    assert!(took < TAKEOVER, "taken over after {took:?}");
    fixture.await_stats("everything to be sent", |stats| stats.dispatched == 5010);
    eventually(LONG, "everything to be handled", || {
        (fixture.handled().len() == 5010).then_some(())
    });
    let numbers: Vec<i64> = fixture.handled().iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted(), "as emitted");
    second.end();
}

/// Stops a relay outside of a transaction. Inside of one, it would block all other writers of the file.
fn freeze(fixture: &Fixture, relay: &Relay) {
    let held = fixture.file().map(|file| {
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

/// A frozen process keeps its connections, and must not block the others. When it continues, it waits for
/// its turn.
fn a_frozen_relay_gives_way(fixture: &Fixture) {
    let broker = shared_broker().url();
    let exchange = format!("frozen.{}", fixture.name);
    let _consumer = Consumer::start(fixture, &broker, &exchange, Duplicates::Detected);
    let first = Relay::start(&fixture.url, &broker, &exchange, SINGLE);
    emit(fixture, 0, 10);
    fixture.await_stats("the first relay's work", |stats| stats.dispatched == 10);
    let second = Relay::start(&fixture.url, &broker, &exchange, SINGLE);
    let is_waiting = |relay: &Relay| {
        relay
            .process()
            .lines()
            .expect_line("another relay is at work", LONG)
    };
    is_waiting(&second);
    freeze(fixture, &first);
    emit(fixture, 10, 100);
    fixture.await_stats("the second relay's work", |stats| stats.dispatched == 110);
    first.process().cont();
    is_waiting(&first);
    emit(fixture, 110, 10);
    fixture.await_stats("everything to be sent", |stats| stats.dispatched == 120);
    eventually(LONG, "everything to be handled", || {
        (fixture.handled().len() == 120).then_some(())
    });
    second.end();
    first.end();
}

/// The control: a frozen process that holds the same lock without a limit. That is a session without an idle timeout,
/// or, on a store without sessions, a lease of an hour.
fn without_an_end_a_frozen_relay_stays(fixture: &Fixture) {
    let broker = shared_broker().url();
    let exchange = format!("stays.{}", fixture.name);
    let _consumer = Consumer::start(fixture, &broker, &exchange, Duplicates::Detected);
    let lock = format!("turno/outbox/relay/{LOCK_ID}");
    let lease = fixture.turno.lock(&lock).ttl(Duration::from_secs(3600));
    let (session, lease) = fixture.runtime.block_on(async {
        if fixture.file().is_some() {
            return (None, lease.acquire().await.unwrap().acquired());
        }
        let session = client(&fixture.url).await;
        let hold = format!("select pg_advisory_lock({LOCK_ID})");
        session.run(&hold).await;
        (Some(session), None)
    });
    let relay = Relay::start(&fixture.url, &broker, &exchange, SINGLE);
    let lines = relay.process().lines();
    lines.expect_line("another relay is at work", LONG);
    emit(fixture, 0, 10);
    std::thread::sleep(FROZEN);
    assert_eq!(fixture.stats().dispatched, 0, "the leader has not changed");
    drop(session);
    if let Some(lease) = lease {
        fixture.runtime.block_on(lease.release()).unwrap();
    }
    fixture.await_stats("everything to be sent", |stats| stats.dispatched == 10);
    relay.end();
}
