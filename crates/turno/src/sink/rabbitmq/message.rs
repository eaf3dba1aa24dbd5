//! An event as an AMQP message.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use crate::sink::{Outgoing, POSSIBLE_DUPLICATE, routing_key};

/// AMQP's delivery mode "persistent".
const PERSISTENT: u8 = 2;
/// Maximum size of the properties in a header frame without the headers: seven short strings and some numbers.
const PROPERTIES_BYTES: usize = 2048;

/// Routing key and properties of a message.
pub(super) struct Message {
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
}

impl Message {
    /// Converts the event, or returns why AMQP cannot represent it: such a message would end the whole connection.
    pub(super) fn new(event: &Outgoing, frame_bytes: usize) -> Result<Self, String> {
        let routing_key = ShortString::try_new(routing_key(&event.kind))
            .map_err(|_| "its type makes a routing key of more than 255 bytes".to_owned())?;
        let seconds = event.emitted_at.as_second();
        let mut headers = Headers::new();
        for (name, value) in &event.headers {
            headers.text(name, value)?;
        }
        headers.text("Type", &event.kind)?;
        if let Some(correlation_id) = &event.correlation_id {
            headers.text("CorrelationId", correlation_id)?;
        }
        headers.set("Timestamp", AMQPValue::LongLongInt(seconds), 8)?;
        if let Some(key) = &event.key {
            headers.text("Key", key)?;
        }
        if let Some(traceparent) = &event.traceparent {
            headers.text("traceparent", traceparent)?;
        }
        if let Some(tracestate) = &event.tracestate {
            headers.text("tracestate", tracestate)?;
        }
        if event.possible_duplicate {
            headers.set(POSSIBLE_DUPLICATE, AMQPValue::Boolean(true), 1)?;
        }
        if headers.bytes + PROPERTIES_BYTES > frame_bytes {
            return Err(format!(
                "its headers have {} bytes, and one frame to this broker has {frame_bytes}",
                headers.bytes
            ));
        }

        let mut properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(PERSISTENT)
            .with_message_id(event.id.to_string().into())
            .with_timestamp(u64::try_from(seconds).unwrap_or(0))
            .with_headers(headers.table);
        // Properties have a length limit. A value that is too long is sent in the headers only.
        if let Ok(kind) = ShortString::try_new(event.kind.as_str()) {
            properties = properties.with_type(kind);
        }
        if let Some(correlation_id) = &event.correlation_id
            && let Ok(correlation_id) = ShortString::try_new(correlation_id.as_str())
        {
            properties = properties.with_correlation_id(correlation_id);
        }
        Ok(Message {
            routing_key,
            properties,
        })
    }
}

/// Headers and their encoded size. Turno's own are added last and take precedence.
struct Headers {
    table: FieldTable,
    bytes: usize,
}

impl Headers {
    fn new() -> Self {
        Headers {
            table: FieldTable::default(),
            bytes: 0,
        }
    }

    fn text(&mut self, name: &str, value: &str) -> Result<(), String> {
        let bytes = value.len();
        self.set(name, AMQPValue::LongString(value.into()), bytes)
    }

    fn set(&mut self, name: &str, value: AMQPValue, bytes: usize) -> Result<(), String> {
        // Length and type precede each name and value.
        self.bytes += name.len() + bytes + 6;
        let name = ShortString::try_new(name)
            .map_err(|_| "the name of one of its headers has more than 255 bytes".to_owned())?;
        self.table.insert(name, value);
        Ok(())
    }
}
