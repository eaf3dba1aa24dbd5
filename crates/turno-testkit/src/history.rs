//! Recorded histories, and checkers that decide whether they keep Turno's promises.
//!
//! A process writes one line of JSON when it makes a call and one when the answer has come, each with one `write`, so that
//! `kill -9` can lose a line but never cut one. A call without an answer has an *unknown* outcome: it may have had its effect, may
//! still have it, or may never have it. The checkers allow all of these, and nothing else.
//!
//! Times are microseconds of the machine's monotonic clock, which all processes share and no test changes.

mod clock;
pub mod inbox;
pub mod linear;
pub mod lock;
pub mod once;
pub mod outbox;
mod record;

pub use self::clock::{Clock, ClockStep};
pub use self::record::{
    Answer, Call, Entry, History, Operation, Pending, Recorder, is_full, name_in,
};

/// A broken promise, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Name of the promise, such as `lock: exclusion`.
    pub promise: &'static str,
    /// What happened, with the operations that show it.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)
    }
}
