//! The outbox under faults: real relays killed, a real RabbitMQ and PostgreSQL restarted, poisoned and unroutable events.
//!
//! Each scenario has a *control*: the same without its guard, which must show the failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod consumer;
mod delivered;
mod fixture;
mod outage;
mod relay;
mod single;
mod store_crash;
mod unroutable;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow and busy machine.
const LONG: Duration = Duration::from_secs(240);
