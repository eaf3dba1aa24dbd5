//! Clocks. No other module of the workspace reads the time of day.
//!
//! Time comparisons use the database's clock. On PostgreSQL that is the server's clock. The embedded store has no
//! server, so it uses the machine's clock, read from the kernel: all processes that share the file then use the same
//! clock, even if a library such as libfaketime changes the time in one of them.

use std::time::Duration;

use jiff::Timestamp;

/// Returns the machine's time of day, in microseconds since 1970.
pub(crate) fn now_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// Returns the machine's time of day, read from the kernel.
///
/// Use it for display and for comparison with the database's clock, never for decisions.
pub fn machine() -> Timestamp {
    from_us(now_us())
}

/// Converts stored microseconds to a time. A value out of range becomes the nearest bound.
pub(crate) fn from_us(us: i64) -> Timestamp {
    Timestamp::from_microsecond(us).unwrap_or(if us < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// Converts a duration to whole microseconds.
pub(crate) fn as_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the time from one stored instant to a later one, or zero if it is not later.
pub(crate) fn between_us(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}
