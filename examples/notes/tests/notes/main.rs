//! The notes of seed 002 as several processes: what goes wrong without locks, and that it does not with them.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod benefits;
mod demonstration;
mod errors;
mod migration;
mod monitoring;
mod place;
mod recovery;
mod troubleshooting;
mod typescript;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow machine with other work to do.
const LONG: Duration = Duration::from_secs(120);
