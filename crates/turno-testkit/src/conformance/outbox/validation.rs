//! Invalid arguments are rejected, and nothing is stored.

use std::time::Duration;

use turno::outbox::Event;

use crate::conformance::outbox::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Events that must be rejected.
pub(in crate::conformance) fn bad() -> Vec<Event> {
    let long = "x".repeat(256);
    vec![
        Event::new("", &1),
        Event::new(&long, &1),
        Event::new("line\nbreak", &1),
        // A type of 198 bytes, whose routing key has more than 255.
        Event::new("AbC".repeat(66), &1),
        Event::from_json("T", "{not json"),
        Event::from_json("T", "1, \"type\": \"other\""),
        Event::new("T", &"x".repeat(turno::MAX_PAYLOAD_BYTES)),
        event(1).ordering_key(""),
        event(1).ordering_key(&long),
        event(1).correlation_id("\u{7}"),
        event(1).traceparent("00-zz-00f067aa0ba902b7-01"),
        event(1).header("", "x"),
        event(1).header("Type", "x"),
        event(1).header("x-possible-duplicate", "x"),
        event(1).header("ce-id", "x"),
        event(1).header("a b", "x"),
        event(1).header("a", "x\ny"),
        event(1).header("a", "x".repeat(4097)),
        (0..65).fold(event(1), |event, n| event.header(format!("h{n}"), "x")),
        event(1).delay(Duration::from_secs(11 * 366 * 24 * 60 * 60)),
    ]
}

/// The error names the field, and the whole call is rejected.
#[rule]
async fn a_bad_event_refuses_the_whole_call(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for bad in bad() {
        let refused = turno.outbox().emit_many(&[event(1), bad.clone()]).await;
        let error = refused.expect_err(&format!("{bad:?}"));
        assert!(error.is_invalid() && error.field().is_some(), "{error}");
    }
    assert_eq!(counts(&turno).await, [0; 6]);
}

/// A relay with invalid settings returns an error and does nothing.
#[rule]
async fn a_bad_relay_does_not_start(test_store: &TestStore) {
    let turno = test_store.turno().await;
    emit(&turno, &[event(1)]).await;
    let sink = Scripted::new([]);
    let relays = [
        ("batch", relay(&turno, &sink).batch(0)),
        ("batch", relay(&turno, &sink).batch(1001)),
        ("max_attempts", relay(&turno, &sink).max_attempts(0)),
        ("lease", relay(&turno, &sink).lease(Duration::ZERO)),
        ("relay", relay(&turno, &sink).name("")),
    ];
    for (field, relay) in relays {
        let error = relay.run(std::future::pending()).await.unwrap_err();
        assert_eq!(error.field(), Some(field));
    }
    assert!(sink.got().is_empty());
}
