//! Request and response bodies of the HTTP API: one type per body.
//!
//! Requests with unknown fields are rejected: a misspelt field that is silently ignored is worse than an error. Later versions
//! may add fields to responses, and clients must ignore those that they do not know.

mod inbox;
mod lock;
mod object;
mod of;
mod once;
mod outbox;
mod people;
mod problem;
#[cfg(feature = "schema")]
pub mod rules;
mod span;
pub mod stream;

pub use self::inbox::*;
pub use self::lock::*;
pub use self::of::{next, raw};
pub use self::once::*;
pub use self::outbox::*;
pub use self::people::*;
pub use self::problem::*;
pub use self::span::Span;

/// Converts to whole milliseconds, rounded down, so that a remaining time is never overstated.
pub fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
