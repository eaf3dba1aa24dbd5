//! Locks.

pub mod postgres;
pub mod sqlite;

/// How many resources are locked in turn.
pub const RESOURCES: usize = 1000;

pub fn any_resource() -> String {
    format!("PRESTAMO/{}", fastrand::usize(..RESOURCES))
}
