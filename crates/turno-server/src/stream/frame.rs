//! Text format of server-sent events.

use bytes::Bytes;
use serde::Serialize;
use turno_api::stream::Reconnect;

/// A comment, which keeps the connection alive.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// Writes one event. serde's JSON has no line breaks, so the data is one line.
pub(crate) fn frame(text: &mut Vec<u8>, id: u64, event: &str, data: &impl Serialize) {
    // Cannot fail: the data consists of strings, numbers and lists of these.
    let data = serde_json::to_string(data).unwrap_or_default();
    text.extend_from_slice(format!("id: {id}\nevent: {event}\ndata: {data}\n\n").as_bytes());
}

/// The last event of a stream: the client should reconnect.
pub(crate) fn reconnect(reason: &str) -> Bytes {
    let reason = reason.to_owned();
    let data = serde_json::to_string(&Reconnect { reason }).unwrap_or_default();
    format!("event: reconnect\ndata: {data}\n\n").into()
}

/// Writes a sequence of events with increasing ids.
pub(crate) struct EventWriter<'a> {
    id: &'a mut u64,
    text: &'a mut Vec<u8>,
}

impl<'a> EventWriter<'a> {
    /// `id` is that of the last event.
    pub(crate) fn new(id: &'a mut u64, text: &'a mut Vec<u8>) -> Self {
        EventWriter { id, text }
    }

    pub(crate) fn event(&mut self, name: &str, data: &impl Serialize) {
        *self.id += 1;
        frame(self.text, *self.id, name, data);
    }
}
