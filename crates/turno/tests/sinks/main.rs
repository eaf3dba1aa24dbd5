//! The sinks and the consumer, with real servers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod amqp;
mod consume;
mod credentials;
mod hook;
mod nats;
mod rabbitmq;
mod rabbitmq_faults;
mod relay_outage;
mod stdout;
mod unroutable;
mod webhook;
mod webhook_answers;

use std::time::Duration;

use turno::sink::{Outgoing, PublishResult};
use uuid::Uuid;

/// Longer than anything takes that is not stuck, on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Returns a minimal event of a type.
fn event(kind: &str) -> Outgoing {
    Outgoing {
        id: Uuid::now_v7(),
        kind: kind.to_owned(),
        key: None,
        correlation_id: None,
        traceparent: None,
        tracestate: None,
        headers: Default::default(),
        emitted_at: turno::clock::machine(),
        payload: r#"{"n":1}"#.to_owned(),
        attempt: 1,
        possible_duplicate: false,
    }
}

/// Returns a name that is unique on a shared server.
fn unique(name: &str) -> String {
    format!("{name}-{}", Uuid::now_v7())
}

/// Returns the reason of an outage, in whichever variant.
fn outage(result: &PublishResult) -> Option<String> {
    match result {
        PublishResult::Unsent(outage) | PublishResult::Doubtful(outage) => Some(outage.to_string()),
        _ => None,
    }
}
