//! A broker that is down: no event is lost, no attempt is counted, and all events arrive when it is up again.

use turno::outbox::EventState;
use turno_testkit::eventually;
use turno_testkit::on_each_store;
use turno_testkit::server::RabbitMq;

use crate::LONG;
use crate::consumer::{Consumer, Duplicates, Queue};
use crate::fixture::{End, Fixture, Recorded};
use crate::relay::{EXCHANGE, ORDERED, Options, Relay};

on_each_store! {
    an_outage_costs_nothing => an_outage_costs_nothing;
    /// The control: a relay that takes an outage for a rejection uses up the attempts, and the events are dead.
    an_outage_that_counts_kills_events => an_outage_that_counts_kills_events;
    a_blocked_broker_is_waited_for => a_blocked_broker_is_waited_for;
}

/// Emits events in one transaction.
fn emit(fixture: &Fixture, from: i64, many: i64) {
    let event = |number| {
        let key = format!("k{}", number % 10);
        Recorded::new("TicketCreatedEvent", &key, number, 0)
    };
    fixture.emit_recorded((from..from + many).map(event).collect(), End::Commit);
}

/// One attempt per event: if an outage were counted as an attempt, the event would be dead.
const ONE_ATTEMPT: Options = Options {
    attempts: 1,
    batch: 50,
    ..ORDERED
};

fn an_outage_costs_nothing(fixture: &Fixture) {
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let url = broker.url();
    let consumer = Consumer::from(
        Queue::Classic,
        fixture,
        &url,
        EXCHANGE,
        Duplicates::Detected,
    );
    let relay = Relay::start(&fixture.url, &broker.url(), EXCHANGE, ONE_ATTEMPT);
    emit(fixture, 0, 1000);
    eventually(LONG, "some to arrive", || {
        (consumer.count() > 100).then_some(())
    });
    broker.kill_9().unwrap();
    emit(fixture, 1000, 1000);
    fixture.await_stats("everything to go back", |stats| {
        stats.processing == 0 && stats.pending > 0
    });
    for event in fixture.list(EventState::Pending) {
        assert_eq!((event.refused, event.errors.len()), (0, 0), "{event:?}");
    }
    broker.restart().unwrap();
    fixture.await_stats("everything to be sent", |stats| stats.dispatched == 2000);
    eventually(LONG, "everything to arrive", || {
        (fixture.handled().len() == 2000).then_some(())
    });
    let report = relay.end();
    let (refused, dead, outages) = (report[1], report[2], report[5]);
    assert_eq!((refused, dead), (0, 0));
    assert!(outages > 0, "there was no outage");
    assert_eq!(fixture.violations(), []);
}

fn an_outage_that_counts_kills_events(fixture: &Fixture) {
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let _consumer = Consumer::start(fixture, &broker.url(), EXCHANGE, Duplicates::Detected);
    let options = Options {
        confirms: "outage-is-rejection",
        ..ONE_ATTEMPT
    };
    let relay = Relay::start(&fixture.url, &broker.url(), EXCHANGE, options);
    emit(fixture, 0, 10);
    fixture.await_stats("them to be sent", |stats| stats.dispatched == 10);
    broker.kill_9().unwrap();
    emit(fixture, 10, 100);
    fixture.await_stats("them to be dead", |stats| stats.dead > 0);
    relay.process().kill_9();
}

fn a_blocked_broker_is_waited_for(fixture: &Fixture) {
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let _consumer = Consumer::start(fixture, &broker.url(), EXCHANGE, Duplicates::Detected);
    let relay = Relay::start(&fixture.url, &broker.url(), EXCHANGE, ONE_ATTEMPT);
    emit(fixture, 0, 10);
    fixture.await_stats("them to be sent", |stats| stats.dispatched == 10);
    broker.block_publishers().unwrap();
    emit(fixture, 10, 200);
    // The claims are given back once the relay detects that the broker does not read.
    fixture.await_stats("them to go back", |stats| {
        stats.processing == 0 && stats.pending == 200
    });
    broker.unblock_publishers().unwrap();
    fixture.await_stats("them to be sent", |stats| stats.dispatched == 210);
    let report = relay.end();
    assert_eq!((report[1], report[2]), (0, 0));
    eventually(LONG, "them to arrive", || {
        (fixture.handled().len() == 210).then_some(())
    });
    assert_eq!(fixture.violations(), []);
}
