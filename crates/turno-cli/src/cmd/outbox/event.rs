//! Text form of an event: on the command line, or as a line of a file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use turno::outbox::Event;
use uuid::Uuid;

use crate::fail::Usage;
use crate::{duration, payload};

/// The fields of an event.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) kind: String,
    pub(super) payload: String,
    pub(super) key: Option<String>,
    pub(super) correlation_id: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) delay: Option<Duration>,
    pub(super) traceparent: Option<String>,
    pub(super) tracestate: Option<String>,
    pub(super) id: Option<Uuid>,
}

impl Draft {
    /// Builds the event. The outbox checks the other rules.
    pub(super) fn event(self) -> Result<Event, Usage> {
        payload::check(&self.payload)?;
        let mut event = Event::from_json(self.kind, self.payload);
        if let Some(key) = self.key {
            event = event.ordering_key(key);
        }
        if let Some(id) = self.correlation_id {
            event = event.correlation_id(id);
        }
        for (name, value) in self.headers {
            event = event.header(name, value);
        }
        if let Some(delay) = self.delay {
            event = event.delay(delay);
        }
        if let Some(traceparent) = self.traceparent {
            event = event.traceparent(traceparent);
        }
        if let Some(tracestate) = self.tracestate {
            event = event.tracestate(tracestate);
        }
        if let Some(id) = self.id {
            event = event.id(id);
        }
        Ok(event)
    }
}

/// A line of a file. Its fields are checked one by one, so that the error names the invalid one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventLine<'a> {
    #[serde(borrow)]
    r#type: &'a RawValue,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow, default)]
    key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    correlation_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    headers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delay: Option<&'a RawValue>,
    #[serde(borrow, default)]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tracestate: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

/// Parses the event of a line.
pub(super) fn from_line(text: &str) -> Result<Event, Usage> {
    let line: EventLine = serde_json::from_str(text).map_err(|error| {
        let detail = format!(
            "event is invalid ({error}): write {{\"type\": …, \"payload\": …}}, one per line"
        );
        Usage::new("event", detail)
    })?;
    Draft {
        kind: read("type", "a string", line.r#type)?,
        payload: line.payload.get().to_owned(),
        key: line.key.map(|value| word("key", value)).transpose()?,
        correlation_id: line
            .correlation_id
            .map(|value| word("correlation_id", value))
            .transpose()?,
        headers: line.headers.map(headers).transpose()?.unwrap_or_default(),
        delay: line.delay.map(delay).transpose()?,
        traceparent: line
            .traceparent
            .map(|value| read("traceparent", "a string", value))
            .transpose()?,
        tracestate: line
            .tracestate
            .map(|value| read("tracestate", "a string", value))
            .transpose()?,
        id: line
            .id
            .map(|value| {
                let how = "a UUID such as 0190f1f4-2b3c-7d4e-8f50-112233445566";
                read("id", how, value)
            })
            .transpose()?,
    }
    .event()
}

fn read<T: DeserializeOwned>(field: &'static str, how: &str, value: &RawValue) -> Result<T, Usage> {
    serde_json::from_str(value.get())
        .map_err(|_| Usage::new(field, format!("{field} must be {how}")))
}

/// Parses a text or a number: keys are often numbers in the systems that they come from.
fn word(field: &'static str, value: &RawValue) -> Result<String, Usage> {
    payload::word(value)
        .ok_or_else(|| Usage::new(field, format!("{field} must be a string or a number")))
}

fn headers(value: &RawValue) -> Result<BTreeMap<String, String>, Usage> {
    read("headers", "an object of strings", value)
}

fn delay(value: &RawValue) -> Result<Duration, Usage> {
    word("delay", value)
        .and_then(|text| duration::parse(&text).map_err(|how| Usage::new("delay", how)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_all_that_can_be_said() {
        let text = r#"{"type": "T", "payload": {"n": 1.10}, "key": 7, "correlation_id": "c", "headers": {"a": "b"},
            "delay": "5m", "traceparent": null, "id": "0190f1f4-2b3c-7d4e-8f50-112233445566"}"#;
        let event = format!("{:?}", from_line(text).unwrap());
        for part in [r#"{\"n\": 1.10}"#, r#"key: Some("7")"#, "300s", "0190f1f4"] {
            assert!(event.contains(part), "{part} is not in {event}");
        }
        assert!(from_line(r#"{"type": "T", "payload": null}"#).is_ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, field) in [
            ("7", "event"),
            ("hello", "event"),
            (r#"{"payload": 1}"#, "event"),
            (r#"{"type": "T"}"#, "event"),
            (r#"{"type": "T", "payload": 1, "kye": "k"}"#, "event"),
            (r#"{"type": "T", "type": "U", "payload": 1}"#, "event"),
            (r#"{"type": 7, "payload": 1}"#, "type"),
            (r#"{"type": "T", "payload": 1, "key": {}}"#, "key"),
            (
                r#"{"type": "T", "payload": 1, "headers": {"a": 1}}"#,
                "headers",
            ),
            (r#"{"type": "T", "payload": 1, "delay": "soon"}"#, "delay"),
            (r#"{"type": "T", "payload": 1, "delay": -5}"#, "delay"),
            (r#"{"type": "T", "payload": 1, "id": "x"}"#, "id"),
        ] {
            assert_eq!(from_line(text).unwrap_err().field, field, "{text}");
        }
    }
}
