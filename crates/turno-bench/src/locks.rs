//! Locks.

pub mod postgres;
pub mod sqlite;

/// Number of resources that are locked in turn.
pub const RESOURCES: usize = 1000;

pub fn any_resource() -> String {
    format!("PRESTAMO/{}", fastrand::usize(..RESOURCES))
}
