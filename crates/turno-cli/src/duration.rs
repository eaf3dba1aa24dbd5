//! How a length of time is written.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// Below this, seconds say it best.
const COUNTED_IN_SECONDS: Duration = Duration::from_secs(600);

/// Reads `500ms`, `30s`, `5m`, `1h30m`, `1d`, or a whole number of milliseconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return milliseconds(whole);
    }
    let span: Span = text.parse().map_err(|_| how())?;
    // A day is 24 hours here; months and years have no fixed length, and are refused.
    let signed = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| how())?;
    Duration::try_from(signed).map_err(|_| negative())
}

/// A whole number of milliseconds.
pub(crate) fn milliseconds(whole: i64) -> Result<Duration, String> {
    u64::try_from(whole)
        .map(Duration::from_millis)
        .map_err(|_| negative())
}

fn how() -> String {
    "a duration is written 500ms, 30s, 5m, 1h30m or 1d, or as a whole number of milliseconds"
        .to_owned()
}

fn negative() -> String {
    "a duration cannot be negative: give one such as 30s".to_owned()
}

/// A length of time for people, rounded up: "0 s left" would be a lie while something is held.
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
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1d", 86_400_000),
            ("90d", 7_776_000_000),
            ("0", 0),
            ("1500", 1500),
            (" 2s ", 2000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "soon",
            "-5s",
            "-5",
            "5s ago",
            "1.5.2",
            "1mo",
            "1y",
            "30 parsecs",
            "99999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("-5s").unwrap_err().contains("negative"));
    }

    #[test]
    fn what_is_left_is_rounded_up() {
        assert_eq!(Shown(Duration::from_millis(1)).to_string(), "1 s");
        assert_eq!(Shown(Duration::from_millis(284_001)).to_string(), "285 s");
        assert_eq!(Shown(Duration::from_secs(5025)).to_string(), "1h 23m 45s");
    }
}
