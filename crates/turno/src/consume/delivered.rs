//! A received event.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use uuid::Uuid;

use crate::sink::POSSIBLE_DUPLICATE;

/// Header in which a quorum queue counts earlier deliveries of a message.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// An event received from a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Event id: the same in every delivery.
    pub id: Uuid,
    /// Event type, such as `TicketCreatedEvent`.
    pub kind: String,
    /// Payload, as JSON text.
    pub payload: String,
    /// Ordering key: events of one key were emitted in order.
    pub key: Option<String>,
    /// Correlation id across services.
    pub correlation_id: Option<String>,
    /// Other headers, including `traceparent`.
    pub headers: BTreeMap<String, String>,
    /// Time at which it was emitted, with a resolution of one second.
    pub emitted_at: Option<Timestamp>,
    /// Whether the relay could not know if it had published the event before.
    pub possible_duplicate: bool,
    /// Whether the broker has delivered it before, to this consumer or another.
    pub redelivered: bool,
    /// Number of this delivery, starting at 1, if the queue counts deliveries.
    pub deliveries: u32,
}

impl Delivered {
    /// Parses a message, or returns why it is not an event.
    pub(super) fn read(delivery: &mut Delivery) -> Result<Self, String> {
        let payload = String::from_utf8(std::mem::take(&mut delivery.data))
            .map_err(|_| "its payload is no text")?;
        let properties = &delivery.properties;
        let id = properties
            .message_id()
            .as_ref()
            .and_then(|id| Uuid::try_parse(id.as_str()).ok())
            .ok_or("its message id is no UUID")?;
        let mut headers = match properties.headers() {
            Some(table) => texts(table),
            None => BTreeMap::new(),
        };
        let property =
            |property: &Option<ShortString>| property.as_ref().map(|text| text.as_str().to_owned());
        let kind = headers
            .remove("Type")
            .or_else(|| property(properties.kind()))
            .unwrap_or_else(|| delivery.routing_key.as_str().to_owned());
        let correlation_id = headers
            .remove("CorrelationId")
            .or_else(|| property(properties.correlation_id()));
        let stamped = headers
            .remove("Timestamp")
            .and_then(|seconds| seconds.parse().ok())
            .or_else(|| properties.timestamp().and_then(|s| i64::try_from(s).ok()));
        let before: u32 = headers
            .remove(DELIVERY_COUNT)
            .and_then(|count| count.parse().ok())
            .unwrap_or(0);
        Ok(Delivered {
            id,
            kind,
            payload,
            key: headers.remove("Key"),
            correlation_id,
            emitted_at: stamped.and_then(|seconds| Timestamp::from_second(seconds).ok()),
            possible_duplicate: headers
                .remove(POSSIBLE_DUPLICATE)
                .is_some_and(|it| it == "true"),
            redelivered: delivery.redelivered,
            deliveries: before.saturating_add(1),
            headers,
        })
    }
}

/// Returns the headers that are strings, numbers or booleans, all as text. Tables and lists are the broker's own metadata.
fn texts(table: &FieldTable) -> BTreeMap<String, String> {
    let text = |value: &AMQPValue| match value {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(truth) => Some(truth.to_string()),
        AMQPValue::ShortShortInt(number) => Some(number.to_string()),
        AMQPValue::ShortShortUInt(number) => Some(number.to_string()),
        AMQPValue::ShortInt(number) => Some(number.to_string()),
        AMQPValue::ShortUInt(number) => Some(number.to_string()),
        AMQPValue::LongInt(number) => Some(number.to_string()),
        AMQPValue::LongUInt(number) => Some(number.to_string()),
        AMQPValue::LongLongInt(number) => Some(number.to_string()),
        AMQPValue::Timestamp(number) => Some(number.to_string()),
        _ => None,
    };
    table
        .inner()
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), text(value)?)))
        .collect()
}
