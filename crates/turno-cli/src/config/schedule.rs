//! `[[schedule]]`: items that a server pushes at certain times.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::Value;
use turno::Turno;
use turno::schedule::Missed;

use super::value::Name;

/// A schedule, and the item that it pushes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    name: Name,
    cron: String,
    queue: Option<Name>,
    #[serde(default)]
    payload: Payload,
    time_zone: Option<String>,
    #[serde(default)]
    missed: OnMissed,
}

/// What happens to the times that passed while no server ran.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnMissed {
    #[default]
    Skip,
    CatchUp,
}

impl Schedule {
    pub(crate) fn over(&self, turno: &Turno) -> turno::schedule::Schedule {
        let mut schedule = turno
            .schedule(&self.name.0, &self.cron)
            .item(&self.payload.0)
            .missed(match self.missed {
                OnMissed::Skip => Missed::Skip,
                OnMissed::CatchUp => Missed::CatchUp,
            });
        if let Some(queue) = &self.queue {
            schedule = schedule.queue(&queue.0);
        }
        if let Some(zone) = &self.time_zone {
            schedule = schedule.time_zone(zone);
        }
        schedule
    }
}

/// JSON that is written in TOML.
#[derive(Debug, Default)]
struct Payload(Value);

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = toml::Value::deserialize(from)?;
        json(written).map(Payload).ok_or_else(|| {
            de::Error::custom("JSON has no such number: remove infinite and NaN values")
        })
    }
}

/// Converts TOML to JSON. Dates and times become strings.
fn json(written: toml::Value) -> Option<Value> {
    Some(match written {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(whole) => whole.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)?.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(json).collect::<Option<_>>()?,
        toml::Value::Table(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| Some((name, json(value)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_written_in_toml() {
        let schedule: Schedule = toml::from_str(
            "name = \"a\"\ncron = \"0 3 * * *\"\npayload = { n = 1, at = 2026-11-15, all = [true, 1.5] }",
        )
        .unwrap();
        let expected = serde_json::json!({"n": 1, "at": "2026-11-15", "all": [true, 1.5]});
        assert_eq!(schedule.payload.0, expected);
    }
}
