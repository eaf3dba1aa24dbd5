//! An event as a request: a CloudEvent, in the body or in headers.

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::signature::Signer;
use super::{Mode, Webhook};
use crate::sink::{Outgoing, POSSIBLE_DUPLICATE};

/// A request without its address.
pub(super) struct Envelope<'a> {
    webhook: &'a Webhook,
    event: &'a Outgoing,
    body: Vec<u8>,
}

/// A CloudEvent as JSON.
#[derive(Serialize)]
struct Structured<'a> {
    specversion: &'static str,
    id: Uuid,
    source: &'a str,
    r#type: &'a str,
    time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: &'a Option<String>,
    datacontenttype: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlationid: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: &'a Option<String>,
    data: &'a RawValue,
}

impl<'a> Envelope<'a> {
    pub(super) fn new(webhook: &'a Webhook, event: &'a Outgoing) -> Result<Self, String> {
        let body = match webhook.mode {
            Mode::Binary => event.payload.clone().into_bytes(),
            Mode::Structured => structured(webhook, event)
                .map_err(|error| format!("its payload is no JSON: {error}"))?,
        };
        Ok(Envelope {
            webhook,
            event,
            body,
        })
    }

    /// Returns the request's headers, signed at `now`.
    pub(super) fn headers(&self, signer: &Signer, now: Timestamp) -> Result<HeaderMap, String> {
        let event = self.event;
        let id = event.id.to_string();
        let mut headers = Headers(HeaderMap::new());
        for (name, value) in &event.headers {
            headers.set(&format!("x-event-{name}"), value)?;
        }
        match self.webhook.mode {
            Mode::Structured => {
                headers.set(
                    CONTENT_TYPE.as_str(),
                    "application/cloudevents+json; charset=UTF-8",
                )?;
            }
            Mode::Binary => {
                headers.set(CONTENT_TYPE.as_str(), "application/json")?;
                headers.set("ce-specversion", "1.0")?;
                headers.set("ce-id", &id)?;
                headers.attribute("ce-source", &self.webhook.source)?;
                headers.attribute("ce-type", &event.kind)?;
                headers.set("ce-time", &event.emitted_at.to_string())?;
                if let Some(key) = &event.key {
                    headers.attribute("ce-subject", key)?;
                }
                if let Some(correlation_id) = &event.correlation_id {
                    headers.attribute("ce-correlationid", correlation_id)?;
                }
            }
        }
        if let Some(traceparent) = &event.traceparent {
            headers.set("traceparent", traceparent)?;
        }
        if let Some(tracestate) = &event.tracestate {
            headers.set("tracestate", tracestate)?;
        }
        if event.possible_duplicate {
            headers.set(POSSIBLE_DUPLICATE, "true")?;
        }
        headers.set("idempotency-key", &id)?;
        headers.set("webhook-id", &id)?;
        let seconds = now.as_second();
        headers.set("webhook-timestamp", &seconds.to_string())?;
        if let Some(signature) = signer.sign(&id, seconds, &self.body) {
            headers.set("webhook-signature", &signature)?;
        }
        Ok(headers.0)
    }

    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }
}

fn structured(webhook: &Webhook, event: &Outgoing) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Structured {
        specversion: "1.0",
        id: event.id,
        source: &webhook.source,
        r#type: &event.kind,
        time: event.emitted_at,
        subject: &event.key,
        datacontenttype: "application/json",
        correlationid: &event.correlation_id,
        traceparent: &event.traceparent,
        tracestate: &event.tracestate,
        data: serde_json::from_str(&event.payload)?,
    })
}

struct Headers(HeaderMap);

impl Headers {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let said = HeaderName::from_bytes(name.as_bytes()).ok();
        match said.zip(HeaderValue::from_str(value).ok()) {
            Some((name, value)) => {
                self.0.insert(name, value);
                Ok(())
            }
            None => Err(format!(
                "HTTP cannot say its header {}",
                name.escape_debug()
            )),
        }
    }

    /// Adds an attribute of a CloudEvent. As the HTTP binding requires, characters other than visible ASCII are percent-encoded.
    fn attribute(&mut self, name: &str, value: &str) -> Result<(), String> {
        let mut encoded = String::with_capacity(value.len());
        for byte in value.bytes() {
            match byte {
                b'"' | b'%' | ..=b' ' | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
                _ => encoded.push(char::from(byte)),
            }
        }
        self.set(name, &encoded)
    }
}
