//! The clocks. Nothing else in the workspace asks for the time of day.
//!
//! The database's clock decides; on PostgreSQL that is the server's. The embedded store has no
//! server, so its clock is the machine's, asked of the kernel: all processes that share the file
//! then share the clock, whatever their own libraries tell them.

use std::time::Duration;

use jiff::Timestamp;

/// The machine's time of day, in microseconds since 1970.
pub(crate) fn now_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// The machine's time of day, as the kernel tells it.
///
/// It is for showing and for comparing with the database's clock, never for deciding.
pub fn machine() -> Timestamp {
    from_us(now_us())
}

/// A stored number of microseconds as a time; out of range becomes the nearest bound.
pub(crate) fn from_us(us: i64) -> Timestamp {
    Timestamp::from_microsecond(us).unwrap_or(if us < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// A duration in whole microseconds.
pub(crate) fn as_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The time from one stored instant to a later one; zero if it is not later.
pub(crate) fn between_us(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}
