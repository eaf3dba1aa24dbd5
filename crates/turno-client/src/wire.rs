//! What is asked and answered over HTTP: one type for each body.
//!
//! Questions refuse fields that they do not know: a misspelt one that is silently ignored is worse than an error. Answers
//! may get more fields with time, and whoever reads them skips what it does not know.

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

/// Whole milliseconds, rounded down: what is left is not told as more than it is.
pub fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
