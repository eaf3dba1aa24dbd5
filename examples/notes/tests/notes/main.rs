//! Notes as several processes: what fails without locks, and does not fail with them.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod benefits;
mod demonstration;
mod errors;
mod migration;
mod mixed_fleet;
mod monitoring;
mod recovery;
mod supabase;
mod test_database;
mod troubleshooting;
mod typescript;

use std::time::Duration;

/// Timeout, longer than any operation takes on a slow machine with other load.
const LONG: Duration = Duration::from_secs(120);
