//! Settings of a queue, which operators change while it is used.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::duration::WireDuration;
#[cfg(feature = "schema")]
use crate::openapi_types::{Name, Text};
use crate::request::request;

/// The largest number in a setting.
pub const MAX_SETTING: u32 = 1_000_000;
/// The longest time of a rate.
pub const MAX_RATE_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Settings of a queue. Default: none, and nothing is limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// Whether claims get no items. Pushes and items in flight are not concerned.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Maximum number of items in flight, over all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1_000_000))]
    pub max_running: Option<u32>,
    /// How many items may begin in a time, over all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl QueueSettings {
    /// Applies a change.
    ///
    /// ```
    /// use turno_api::inbox::{QueueSettings, SettingsChange};
    ///
    /// let settings: QueueSettings = serde_json::from_str(r#"{"max_running": 3, "rate": {"count": 100, "per": "1m"}}"#)?;
    /// let settings = settings.with(&SettingsChange::default().rate(None));
    /// assert_eq!((settings.max_running, settings.rate), (Some(3), None));
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    #[must_use = "these are the new settings"]
    pub fn with(&self, change: &SettingsChange) -> Self {
        QueueSettings {
            paused: change.paused.map_or(self.paused, Option::unwrap_or_default),
            max_running: change.max_running.unwrap_or(self.max_running),
            rate: change.rate.unwrap_or(self.rate),
        }
    }
}

/// A rate: items begin at equal intervals of `per` divided by `count`, or up to `burst` at once if none has begun for as long as
/// these take. So with the default burst, at most `count` begin in any `per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// The number of items.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1_000_000))]
    pub count: u32,
    /// The time, from a millisecond to a day.
    pub per: WireDuration,
    /// How many may begin at once. Default: 1.
    #[serde(default = "one")]
    #[cfg_attr(
        feature = "schema",
        schema(minimum = 1, maximum = 1_000_000, default = 1)
    )]
    pub burst: u32,
}

impl Rate {
    /// So many items per time, at equal intervals.
    pub fn new(count: u32, per: Duration) -> Self {
        Rate {
            count,
            per: WireDuration(per),
            burst: 1,
        }
    }

    /// Sets how many may begin at once. Default: 1.
    #[must_use = "it is another rate"]
    pub fn burst(self, burst: u32) -> Self {
        Rate { burst, ..self }
    }
}

request! {
    /// Changes settings of a queue: `PATCH /v1/inbox/{queue}/settings`. A setting that is absent stays as it is; `null` removes it.
    #[derive(Default, PartialEq, Eq)]
    pub struct Configure {} optional {
        /// Whether claims get no items.
        #[serde(deserialize_with = "present")]
        paused: Option<bool>,
        /// Maximum number of items in flight, over all workers.
        #[serde(deserialize_with = "present")]
        #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1_000_000))]
        max_running: Option<u32>,
        /// How many items may begin in a time, over all workers.
        #[serde(deserialize_with = "present")]
        rate: Option<Rate>,
        /// The operator, for the history. Default: the name of the access token.
        user: String as Name,
        /// The reason, for the history.
        reason: String as Text,
    }
}

impl From<Configure> for SettingsChange {
    fn from(body: Configure) -> Self {
        SettingsChange {
            paused: body.paused,
            max_running: body.max_running,
            rate: body.rate,
        }
    }
}

/// A change of settings: for each setting nothing, its removal (`Some(None)`), or a value. Default: no change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SettingsChange {
    /// Whether claims get no items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Option<bool>>,
    /// Maximum number of items in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<Option<u32>>,
    /// How many items may begin in a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Option<Rate>>,
}

impl SettingsChange {
    /// Pauses or resumes the queue.
    #[must_use = "it is another change"]
    pub fn paused(self, paused: bool) -> Self {
        SettingsChange {
            paused: Some(Some(paused)),
            ..self
        }
    }

    /// Sets or removes the maximum number of items in flight.
    #[must_use = "it is another change"]
    pub fn max_running(self, max_running: impl Into<Option<u32>>) -> Self {
        SettingsChange {
            max_running: Some(max_running.into()),
            ..self
        }
    }

    /// Sets or removes the rate.
    #[must_use = "it is another change"]
    pub fn rate(self, rate: impl Into<Option<Rate>>) -> Self {
        SettingsChange {
            rate: Some(rate.into()),
            ..self
        }
    }
}

/// Parameters of `InboxStore::inbox_configure`.
#[derive(Debug, Clone)]
pub struct InboxConfigure {
    /// The queue.
    pub queue: String,
    /// The change.
    pub change: SettingsChange,
    /// The operator, for the history.
    pub user: Option<String>,
    /// The reason, for the history.
    pub reason: Option<String>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A field that is there, and may be `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(json: &str) -> SettingsChange {
        serde_json::from_str::<Configure>(json).unwrap().into()
    }

    #[test]
    fn what_is_absent_stays_and_null_removes() {
        let rate = Rate::new(100, Duration::from_secs(60));
        let settings = QueueSettings {
            paused: true,
            max_running: Some(3),
            rate: Some(rate),
        };
        assert_eq!(settings.with(&change("{}")), settings);
        let resumed = settings.with(&change(r#"{"paused": null, "max_running": 5}"#));
        assert_eq!((resumed.paused, resumed.max_running), (false, Some(5)));
        assert_eq!(resumed.rate, Some(rate));
        let unlimited = resumed.with(&change(r#"{"max_running": null, "rate": null}"#));
        assert_eq!(unlimited, QueueSettings::default());
    }

    #[test]
    fn a_change_is_sent_as_it_was_read() {
        for json in [
            r#"{"paused":true}"#,
            r#"{"max_running":null}"#,
            r#"{"rate":{"count":2,"per":"1000ms","burst":3}}"#,
        ] {
            assert_eq!(serde_json::to_string(&change(json)).unwrap(), json);
            let body: Configure = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&body).unwrap(), json);
        }
    }
}
