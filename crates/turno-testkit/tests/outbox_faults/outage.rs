//! A broker that is away: nothing is lost, nothing is charged, and everything comes when it is there again.

use turno::outbox::{Event, EventState};
use turno_testkit::eventually;
use turno_testkit::server::RabbitMq;

use crate::consumer::{Consumer, Queue, Seen};
use crate::place::{End, Place};
use crate::relay::{EXCHANGE, How, ORDERED, Relay};
use crate::{LONG, on_each_store};

on_each_store! {
    an_outage_costs_nothing => an_outage_costs_nothing;
    a_blocked_broker_is_waited_for => a_blocked_broker_is_waited_for;
}

fn events(from: i64, many: i64) -> Vec<Event> {
    (from..from + many)
        .map(|number| {
            let key = format!("k{}", number % 10);
            let payload = serde_json::json!({"key": key, "number": number});
            Event::new("TicketCreatedEvent", &payload).ordering_key(key)
        })
        .collect()
}

/// One attempt for each event: a single one charged to an outage would be a dead event.
const ONE_ATTEMPT: How = How {
    attempts: 1,
    batch: 50,
    ..ORDERED
};

fn an_outage_costs_nothing(place: &Place) {
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let url = broker.url();
    let consumer = Consumer::from(Queue::Classic, place, &url, EXCHANGE, Seen::Asked);
    let relay = Relay::start(&place.url, &broker.url(), EXCHANGE, ONE_ATTEMPT);
    place.emit(&events(0, 1000), End::Commit);
    eventually(LONG, "some to arrive", || {
        (consumer.count() > 100).then_some(())
    });
    broker.kill_9().unwrap();
    place.emit(&events(1000, 1000), End::Commit);
    place.await_stats("everything to go back", |stats| {
        stats.processing == 0 && stats.pending > 0
    });
    for event in place.list(EventState::Pending) {
        assert_eq!((event.refused, event.errors.len()), (0, 0), "{event:?}");
    }
    broker.restart().unwrap();
    place.await_stats("everything to be sent", |stats| stats.dispatched == 2000);
    eventually(LONG, "everything to arrive", || {
        (place.handled().len() == 2000).then_some(())
    });
    let report = relay.end();
    let (refused, dead, outages) = (report[1], report[2], report[5]);
    assert_eq!((refused, dead), (0, 0));
    assert!(outages > 0, "there was no outage");
}

fn a_blocked_broker_is_waited_for(place: &Place) {
    let broker = RabbitMq::start().expect("RabbitMQ starts");
    let _consumer = Consumer::start(place, &broker.url(), EXCHANGE, Seen::Asked);
    let relay = Relay::start(&place.url, &broker.url(), EXCHANGE, ONE_ATTEMPT);
    place.emit(&events(0, 10), End::Commit);
    place.await_stats("them to be sent", |stats| stats.dispatched == 10);
    broker.block_publishers().unwrap();
    place.emit(&events(10, 200), End::Commit);
    // Given back once it is clear that the broker does not read.
    place.await_stats("them to go back", |stats| {
        stats.processing == 0 && stats.pending == 200
    });
    broker.unblock_publishers().unwrap();
    place.await_stats("them to be sent", |stats| stats.dispatched == 210);
    let report = relay.end();
    assert_eq!((report[1], report[2]), (0, 0));
    eventually(LONG, "them to arrive", || {
        (place.handled().len() == 210).then_some(())
    });
}
