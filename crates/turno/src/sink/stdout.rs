//! Sink that writes events as lines of JSON to standard output, to read them or to pipe them into another program.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Outage, Outgoing, PublishResult, Sink};

/// Writes one line of JSON for each event, and flushes after each batch.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), turno::sink::Outage> {
/// use turno::sink::{Sink, Stdout};
///
/// let sink = Stdout::new();
/// sink.ready().await?;
/// # Ok(()) }
/// ```
///
/// The payload is written as it was emitted, digit for digit. A closed pipe is an outage: no event is lost, and the
/// events are written when the program is started again with a reader.
pub struct Stdout {
    name: &'static str,
    out: Arc<Mutex<Out>>,
}

struct Out {
    writer: Box<dyn Write + Send>,
    closed: bool,
}

impl Stdout {
    /// Creates a sink that writes to standard output.
    pub fn new() -> Self {
        Self::lines("standard output", io::stdout())
    }

    /// Creates a sink that writes the same lines to another writer, such as a file or a pipe.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::sync::Arc;
    /// use turno::outbox::Event;
    /// use turno::sink::Stdout;
    ///
    /// let (reader, writer) = std::io::pipe().expect("a pipe");
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// outbox.emit(Event::new("TicketCreatedEvent", &7)).await?;
    /// # let shutdown = async { while outbox.stats().await.unwrap().dispatched == 0 { tokio::time::sleep(std::time::Duration::from_millis(5)).await } };
    /// outbox.relay(Arc::new(Stdout::writing_to(writer))).run(shutdown).await?;
    /// let lines = std::io::read_to_string(reader).expect("the lines");
    /// assert!(lines.contains("TicketCreatedEvent"));
    /// # Ok(()) }
    /// ```
    pub fn writing_to(writer: impl Write + Send + 'static) -> Self {
        Self::lines("a writer of lines", writer)
    }

    fn lines(name: &'static str, writer: impl Write + Send + 'static) -> Self {
        Stdout {
            name,
            out: Arc::new(Mutex::new(Out {
                writer: Box::new(writer),
                closed: false,
            })),
        }
    }

    fn closed(&self) -> Outage {
        Outage::new(format!(
            "{} is closed: its reader has ended. Start the program again with a reader",
            self.name
        ))
    }
}

impl Default for Stdout {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stdout").field(&self.name).finish()
    }
}

#[async_trait]
impl Sink for Stdout {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        match self
            .out
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed
        {
            true => Err(self.closed()),
            false => Ok(()),
        }
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        if let Err(outage) = self.ready().await {
            return vec![PublishResult::Unsent(outage); events.len()];
        }
        let mut text = Vec::new();
        let mut fates: Vec<PublishResult> =
            events.iter().map(|event| line(event, &mut text)).collect();
        let out = self.out.clone();
        // A slow reader blocks the writer, but must not block the runtime.
        let written = tokio::task::spawn_blocking(move || {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            let written = out.writer.write_all(&text);
            let written = written.and_then(|()| out.writer.flush());
            out.closed |=
                matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
            written
        });
        let outage = match written.await {
            Ok(Ok(())) => return fates,
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => self.closed(),
            Ok(Err(error)) => Outage::new(format!("{} cannot be written: {error}", self.name)),
            Err(_) => Outage::new(format!("{} was not written: the program ends", self.name)),
        };
        for result in &mut fates {
            if *result == PublishResult::Sent {
                *result = PublishResult::Doubtful(outage.clone());
            }
        }
        fates
    }
}

/// An event as it is written.
#[derive(Serialize)]
struct OutputLine<'a> {
    id: Uuid,
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: &'a Option<String>,
    headers: &'a BTreeMap<String, String>,
    emitted_at: Timestamp,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    possible_duplicate: bool,
    payload: &'a RawValue,
}

/// Appends the event's line to `text`, unless its payload is not JSON.
fn line(event: &Outgoing, text: &mut Vec<u8>) -> PublishResult {
    // Between the tokens of JSON text, a line break is white space. It would end the line, so it is replaced.
    let broken = event.payload.contains(['\n', '\r']);
    let joined = broken.then(|| event.payload.replace(['\n', '\r'], " "));
    let payload = joined.as_deref().unwrap_or(&event.payload);
    let before = text.len();
    let added = serde_json::from_str(payload).and_then(|payload| {
        serde_json::to_writer(
            &mut *text,
            &OutputLine {
                id: event.id,
                r#type: &event.kind,
                key: &event.key,
                correlation_id: &event.correlation_id,
                traceparent: &event.traceparent,
                tracestate: &event.tracestate,
                headers: &event.headers,
                emitted_at: event.emitted_at,
                possible_duplicate: event.possible_duplicate,
                payload,
            },
        )
    });
    match added {
        Ok(()) => {
            text.push(b'\n');
            PublishResult::Sent
        }
        Err(error) => {
            text.truncate(before);
            PublishResult::Refused(format!("its payload is no JSON: {error}"))
        }
    }
}
