//! An event as it arrives.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use uuid::Uuid;

use crate::sink::POSSIBLE_DUPLICATE;

/// How often a quorum queue has delivered a message before.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// An event from a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The event's id: the same however often it comes.
    pub id: Uuid,
    /// What happened: `TicketCreatedEvent`.
    pub kind: String,
    /// What it says, as JSON text.
    pub payload: String,
    /// Events with one key were emitted in order.
    pub key: Option<String>,
    /// What it belongs to, across services.
    pub correlation_id: Option<String>,
    /// The other headers, `traceparent` among them.
    pub headers: BTreeMap<String, String>,
    /// When it was emitted, to the second.
    pub emitted_at: Option<Timestamp>,
    /// Whoever published it did not know whether it had been published before.
    pub possible_duplicate: bool,
    /// The broker has delivered it before, to this consumer or another.
    pub redelivered: bool,
    /// Which delivery this is, counted from one, as far as the queue counts.
    pub deliveries: u32,
}

impl Delivered {
    /// Reads a message, or says why it is no event.
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

/// The headers that are texts, numbers or truth values, all as text. Tables and lists are the broker's own notes.
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
