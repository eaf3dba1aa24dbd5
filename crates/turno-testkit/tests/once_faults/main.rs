//! Once under faults: real web servers and gates that are overloaded, killed and stopped, and databases that crash.
//!
//! Each scenario has a *control*: the same without its guard, which must show the failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod client;
mod concurrency;
mod crash;
mod fixture;
mod identity;
mod killed;
mod load;
mod web;
mod zombie;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow and busy machine.
const LONG: Duration = Duration::from_secs(120);
