//! The inbox.

pub mod peers;
pub mod postgres;
pub mod sqlite;
pub mod work;

/// Size of a payload, in bytes.
pub const PAYLOAD_BYTES: usize = 100;
/// Batch size of pushes and settlements, for peers and for Turno.
pub const BATCH: usize = 500;
