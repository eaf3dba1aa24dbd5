//! One relay at a time: the second says who is at work, and takes over within two seconds when that one is killed.

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
}

fn the_second_relay_takes_over(place: &Place) {
    let broker = shared_broker().url();
    let exchange = format!("single.{}", place.name);
    let consumer = Consumer::start(place, &broker, &exchange, Seen::Asked);
    let first = Relay::start(&place.url, &broker, &exchange, SINGLE);
    let emit = |number: i64, many: i64| {
        let events: Vec<Event> = (number..number + many)
            .map(|number| {
                let payload = serde_json::json!({"key": "k", "number": number});
                Event::new("TicketCreatedEvent", &payload).key("k")
            })
            .collect();
        place.emit(&events, End::Commit);
    };
    emit(0, 10);
    place.await_stats("the first relay's work", |stats| stats.dispatched == 10);
    let second = Relay::start(&place.url, &broker, &exchange, SINGLE);
    // It says who has the lock: the other one's name has its process in it.
    let who = second
        .process()
        .lines()
        .expect_line("another relay is at work", LONG);
    assert!(who.contains(&first.process().id().to_string()), "{who}");
    emit(10, 5000);
    eventually(LONG, "the first relay to be in the middle", || {
        (consumer.count() > 100).then_some(())
    });
    first.process().kill_9();
    let killed = Instant::now();
    let so_far = consumer.count();
    // Those of the dead one that are still on their way do not count.
    let mut took = None;
    eventually(LONG, "everything to be sent", || {
        if took.is_none() && consumer.count() > so_far + 100 {
            took = Some(killed.elapsed());
        }
        (place.stats().dispatched == 5010).then_some(())
    });
    let took = took.expect("the second relay went on");
    println!("{}: taken over within {took:?}", place.name);
    assert!(took < TAKEOVER, "taken over after {took:?}");
    eventually(LONG, "everything to be handled", || {
        (place.handled().len() == 5010).then_some(())
    });
    let numbers: Vec<i64> = place.handled().iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted(), "as emitted");
    second.end();
}
