//! Half of the events are unroutable: exactly that half becomes dead, and the other half arrives.

use std::collections::BTreeSet;
use std::time::Duration;

use turno::outbox::{Event, EventState};
use turno_testkit::eventually;

use crate::consumer::{Consumer, Seen};
use crate::place::{End, Place, shared_broker};
use crate::relay::{How, ORDERED, Relay};
use crate::{LONG, on_each_store};

const HALF: i64 = 2500;

on_each_store! {
    exactly_the_unroutable_ones_die => exactly_the_unroutable_ones_die;
}

fn exactly_the_unroutable_ones_die(place: &Place) {
    let broker = shared_broker().url();
    let exchange = format!("unroutable.{}", place.name);
    let _consumer = Consumer::start(place, &broker, &exchange, Seen::Asked);
    let events: Vec<Event> = (0..2 * HALF)
        .map(|number| {
            let kind = if number % 2 == 0 {
                "TicketCreatedEvent"
            } else {
                "NobodyListensEvent"
            };
            Event::new(kind, &serde_json::json!({"key": "", "number": number}))
        })
        .collect();
    place.emit(&events, End::Commit);
    let how = How {
        mode: "parallel",
        batch: 1000,
        attempts: 1,
        lease: Duration::from_secs(30),
        ..ORDERED
    };
    let relay = Relay::start(&place.url, &broker, &exchange, how);
    place.await_stats("all to be settled", |stats| {
        stats.dispatched + stats.dead == 2 * HALF as u64
    });
    relay.end();
    let dead: BTreeSet<String> = place
        .list(EventState::Dead)
        .into_iter()
        .map(|event| event.kind.unwrap())
        .collect();
    assert_eq!(dead, BTreeSet::from(["NobodyListensEvent".to_owned()]));
    assert_eq!(place.stats().dead, HALF as u64);
    let half = usize::try_from(HALF).unwrap();
    eventually(LONG, "the others to be handled", || {
        (place.handled().len() == half).then_some(())
    });
    assert!(place.handled().iter().all(|one| one.number % 2 == 0));
}
