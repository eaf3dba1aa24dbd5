//! Durations in JSON.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SpanRelativeTo;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time: `500ms`, `30s`, `5m`, `1h30m`, `1d`. The unit is required, because a bare number reads as seconds to some
/// readers and as milliseconds to others.
///
/// ```
/// use std::time::Duration;
/// use turno_api::duration::WireDuration;
///
/// let durations: [WireDuration; 2] = serde_json::from_str(r#"["1h30m", "1500ms"]"#)?;
/// assert_eq!(durations[0].0, Duration::from_secs(5400));
/// assert_eq!(durations[1].0, Duration::from_millis(1500));
/// assert!(serde_json::from_str::<WireDuration>("30").is_err());
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireDuration(pub Duration);

impl From<Duration> for WireDuration {
    fn from(duration: Duration) -> Self {
        WireDuration(duration)
    }
}

impl From<WireDuration> for Duration {
    fn from(duration: WireDuration) -> Self {
        duration.0
    }
}

impl FromStr for WireDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(without_unit(text));
        }
        let span: jiff::Span = text.parse().map_err(|_| expected())?;
        // A day is 24 hours here; months and years have no fixed length, and are refused.
        let signed = span
            .to_duration(SpanRelativeTo::days_are_24_hours())
            .map_err(|_| expected())?;
        Duration::try_from(signed)
            .map(WireDuration)
            .map_err(|_| negative())
    }
}

fn expected() -> String {
    "a duration is written 500ms, 30s, 5m, 1h30m or 1d".to_owned()
}

/// The error for a number without a unit.
fn without_unit(number: impl fmt::Display) -> String {
    format!("{number} has no unit: write {number}s for seconds, or {number}ms for milliseconds")
}

fn negative() -> String {
    "a duration cannot be negative: give one such as 30s".to_owned()
}

/// Converts to whole milliseconds, rounded down, so that a remaining time is never overstated.
pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration as whole milliseconds.
pub(crate) mod as_ms {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(ms(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// An optional duration as whole milliseconds.
pub(crate) mod as_optional_ms {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(ms).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

/// An optional duration as text, like [`WireDuration`].
pub(crate) mod as_optional_text {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(WireDuration).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<WireDuration>::deserialize(deserializer)?.map(Into::into))
    }
}

/// Whole milliseconds, rounded up, so that a duration above zero never becomes zero.
impl Serialize for WireDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = self.0.as_nanos().div_ceil(1_000_000);
        serializer.collect_str(&format_args!("{whole}ms"))
    }
}

impl<'de> Deserialize<'de> for WireDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = WireDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"30s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WireDuration, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<WireDuration, E> {
        Err(E::custom(without_unit(number)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<WireDuration, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::custom(negative())),
        }
    }
}

#[cfg(feature = "schema")]
mod schema {
    use utoipa::openapi::{RefOr, Schema};
    use utoipa::{PartialSchema, ToSchema};

    use super::WireDuration;
    use crate::openapi_types::duration;

    impl PartialSchema for WireDuration {
        fn schema() -> RefOr<Schema> {
            duration("A length of time, with its unit: 30s")
        }
    }

    impl ToSchema for WireDuration {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_units() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1d", 86_400_000),
            ("90d", 7_776_000_000),
            ("0s", 0),
            ("1500ms", 1500),
            (" 2s ", 2000),
        ] {
            assert_eq!(
                text.parse(),
                Ok(WireDuration(Duration::from_millis(ms))),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "",
            "soon",
            "-5s",
            "-5",
            "0",
            "30",
            "1500",
            "5s ago",
            "1.5.2",
            "1mo",
            "1y",
            "30 parsecs",
            "99999999999999999999",
        ] {
            assert!(text.parse::<WireDuration>().is_err(), "{text}");
        }
        assert!(
            "-5s"
                .parse::<WireDuration>()
                .unwrap_err()
                .contains("negative")
        );
        assert!("30".parse::<WireDuration>().unwrap_err().contains("30s"));
        let number = serde_json::from_str::<WireDuration>("30")
            .unwrap_err()
            .to_string();
        assert!(number.contains("30s"), "{number}");
        for json in ["0", "30", "-1", "1.5", "true", "null", "[]", "\"soon\""] {
            assert!(
                serde_json::from_str::<WireDuration>(json).is_err(),
                "{json}"
            );
        }
    }

    #[test]
    fn a_duration_above_zero_does_not_become_zero() {
        let duration = WireDuration(Duration::from_nanos(1));
        assert_eq!(serde_json::to_string(&duration).unwrap(), "\"1ms\"");
    }
}
