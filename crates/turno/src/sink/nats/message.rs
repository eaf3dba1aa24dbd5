//! An event as a NATS message.

use std::str::FromStr;

use async_nats::header::{HeaderMap, HeaderName, HeaderValue, NATS_MESSAGE_ID};

use crate::sink::{Outgoing, POSSIBLE_DUPLICATE, routing_key};

/// A message to publish.
pub(super) struct Message {
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: bytes::Bytes,
}

impl Message {
    /// Converts the event, or returns why NATS cannot represent it.
    pub(super) fn new(event: &Outgoing, prefix: Option<&str>) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &event.headers {
            // Such headers are commands to the server: one of them deletes all messages of the stream.
            if name.to_ascii_lowercase().starts_with("nats-") {
                return Err(format!(
                    "its header {name} would be a command to the server"
                ));
            }
            set(&mut headers, name, value)?;
        }
        set(&mut headers, "Type", &event.kind)?;
        if let Some(correlation_id) = &event.correlation_id {
            set(&mut headers, "CorrelationId", correlation_id)?;
        }
        set(
            &mut headers,
            "Timestamp",
            &event.emitted_at.as_second().to_string(),
        )?;
        if let Some(key) = &event.key {
            set(&mut headers, "Key", key)?;
        }
        if let Some(traceparent) = &event.traceparent {
            set(&mut headers, "traceparent", traceparent)?;
        }
        if let Some(tracestate) = &event.tracestate {
            set(&mut headers, "tracestate", tracestate)?;
        }
        if event.possible_duplicate {
            set(&mut headers, POSSIBLE_DUPLICATE, "true")?;
        }
        headers.insert(NATS_MESSAGE_ID, event.id.to_string());
        Ok(Message {
            subject: subject(&event.kind, prefix)?,
            headers,
            payload: bytes::Bytes::from(event.payload.clone()),
        })
    }
}

/// Returns the subject of an event type.
pub(super) fn subject(kind: &str, prefix: Option<&str>) -> Result<String, String> {
    let key = routing_key(kind);
    let subject = match prefix {
        Some(prefix) => format!("{prefix}.{key}"),
        None => key,
    };
    let bad = |token: &str| {
        token.is_empty()
            || token.contains(|letter: char| {
                letter.is_whitespace() || letter.is_control() || matches!(letter, '*' | '>')
            })
    };
    match subject.split('.').any(bad) {
        true => Err(format!(
            "its type makes no subject for NATS: {}",
            subject.escape_debug()
        )),
        false => Ok(subject),
    }
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    match HeaderName::from_str(name)
        .ok()
        .zip(HeaderValue::from_str(value).ok())
    {
        Some((name, value)) => {
            headers.insert(name, value);
            Ok(())
        }
        None => Err(format!(
            "NATS cannot say its header {}",
            name.escape_debug()
        )),
    }
}
