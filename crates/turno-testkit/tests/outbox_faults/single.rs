//! One relay at a time: the second says who is at work, and takes over within two seconds when that one is killed, and soon
//! when it stands still.

use std::time::{Duration, Instant};

use turno::outbox::Event;
use turno_testkit::eventually;

use crate::consumer::{Consumer, Seen};
use crate::place::{End, Place, shared_broker};
use crate::relay::{How, ORDERED, Relay};
use crate::{LONG, on_each_store};

const SINGLE: How = How {
    mode: "single",
    // Long: whoever takes over does not wait for the end of claims.
    lease: Duration::from_secs(60),
    batch: 50,
    ..ORDERED
};
/// How long a takeover may take.
const TAKEOVER: Duration = Duration::from_secs(2);

on_each_store! {
    the_second_relay_takes_over => the_second_relay_takes_over;
    a_frozen_relay_gives_way => a_frozen_relay_gives_way;
}

/// Emits so many, which are in order from a number on.
fn emit(place: &Place, number: i64, many: i64) {
    let events: Vec<Event> = (number..number + many)
        .map(|number| {
            let payload = serde_json::json!({"key": "k", "number": number});
            Event::new("TicketCreatedEvent", &payload).key("k")
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
    first.process().stop();
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
