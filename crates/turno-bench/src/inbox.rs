//! The inbox.

pub mod peers;
pub mod postgres;
pub mod sqlite;
pub mod work;

/// The size of a payload, in bytes.
pub const PAYLOAD_BYTES: usize = 100;
/// Peers and Turno push and settle so many at a time.
pub const BATCH: usize = 500;
