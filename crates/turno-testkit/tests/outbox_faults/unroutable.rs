//! Half of the events are unroutable: exactly that half becomes dead, and the other half arrives.

use std::collections::BTreeSet;
use std::time::Duration;

use turno::outbox::{Event, EventState};
use turno_testkit::eventually;
use turno_testkit::on_each_store;

use crate::LONG;
use crate::consumer::{Consumer, Duplicates};
use crate::fixture::{End, Fixture, shared_broker};
use crate::relay::{Options, Relay};

const HALF: i64 = 2500;

on_each_store! {
    exactly_the_unroutable_ones_die => exactly_the_unroutable_ones_die;
    /// The control: for a publisher without confirms, the unroutable ones are sent, and lost.
    without_confirms_the_unroutable_ones_vanish => without_confirms_the_unroutable_ones_vanish;
}

fn exactly_the_unroutable_ones_die(fixture: &Fixture) {
    let _consumer = settle(fixture, "confirmed");
    let dead: BTreeSet<String> = fixture
        .list(EventState::Dead)
        .into_iter()
        .map(|event| event.kind.unwrap())
        .collect();
    assert_eq!(dead, BTreeSet::from(["UnroutableEvent".to_owned()]));
    assert_eq!(fixture.stats().dead, HALF as u64);
    let half = usize::try_from(HALF).unwrap();
    eventually(LONG, "the others to be handled", || {
        (fixture.handled().len() == half).then_some(())
    });
    assert!(fixture.handled().iter().all(|one| one.number % 2 == 0));
}

fn without_confirms_the_unroutable_ones_vanish(fixture: &Fixture) {
    let _consumer = settle(fixture, "unconfirmed");
    let stats = fixture.stats();
    assert_eq!((stats.dispatched, stats.dead), (2 * HALF as u64, 0));
}

/// Emits events of which half are unroutable, and waits until a relay has settled all of them.
fn settle(fixture: &Fixture, confirms: &'static str) -> Consumer {
    let broker = shared_broker().url();
    let exchange = format!("unroutable.{}.{confirms}", fixture.name);
    let consumer = Consumer::start(fixture, &broker, &exchange, Duplicates::Detected);
    let events: Vec<Event> = (0..2 * HALF)
        .map(|number| {
            let kind = if number % 2 == 0 {
                "TicketCreatedEvent"
            } else {
                "UnroutableEvent"
            };
            Event::new(kind, &serde_json::json!({"key": "", "number": number}))
        })
        .collect();
    fixture.emit(&events, End::Commit);
    let options = Options {
        mode: "parallel",
        confirms,
        batch: 1000,
        attempts: 1,
        lease: Duration::from_secs(30),
    };
    let relay = Relay::start(&fixture.url, &broker, &exchange, options);
    fixture.await_stats("all to be settled", |stats| {
        stats.dispatched + stats.dead == 2 * HALF as u64
    });
    relay.end();
    consumer
}
