//! Locks under faults: real processes stopped and killed, servers crashed, responses lost, clocks shifted.
//!
//! Each scenario has a *control*: the same without its guard, which must show the failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod actor;
mod answers;
mod crash;
mod fixture;
mod handover;
mod ledger;
mod network;
mod pooler;
mod race;
mod takeover;
mod zombie;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow and busy machine.
const LONG: Duration = Duration::from_secs(60);
