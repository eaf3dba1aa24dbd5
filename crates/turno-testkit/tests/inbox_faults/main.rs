//! The inbox under faults: real workers stopped and killed, servers crashed, responses lost, items that crash their worker.
//!
//! Each scenario has a *control*: the same without its guard, which must show the failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod answers;
mod blocked;
mod clock;
mod fixture;
mod killed;
mod network;
mod order;
mod poison;
mod restart;
mod sequence;
mod shutdown;
mod stuck;
mod swept;
mod worker;
mod zombie;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow and busy machine.
const LONG: Duration = Duration::from_secs(120);
