//! Locks.

pub mod postgres;
pub mod sqlite;

use std::time::Duration;

/// Lease of each lock.
pub const TTL: Duration = Duration::from_secs(30);
/// Number of resources that are locked in turn.
pub const RESOURCES: usize = 1000;

pub fn any_resource() -> String {
    format!("PRESTAMO/{}", fastrand::usize(..RESOURCES))
}
