//! Text format of durations.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use turno_api::duration::WireDuration;

/// Durations below this are shown in seconds.
const COUNTED_IN_SECONDS: Duration = Duration::from_secs(600);

/// Parses `500ms`, `30s`, `5m`, `1h30m`, `1d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    text.parse().map(|WireDuration(duration)| duration)
}

/// Parses a duration above zero.
pub(crate) fn above_zero(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be above zero: give a duration such as 30s".to_owned()),
        duration => Ok(duration),
    }
}

/// A duration for people, rounded up: "0 s left" would be false while a lock is still held.
pub(crate) struct Shown(pub(crate) Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs() + u64::from(self.0.subsec_nanos() > 0);
        if self.0 < COUNTED_IN_SECONDS {
            return write!(f, "{seconds} s");
        }
        let signed = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        write!(f, "{signed:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_rounded_up() {
        assert_eq!(Shown(Duration::from_millis(1)).to_string(), "1 s");
        assert_eq!(Shown(Duration::from_millis(284_001)).to_string(), "285 s");
        assert_eq!(Shown(Duration::from_secs(5025)).to_string(), "1h 23m 45s");
    }
}
