//! Client of the server-sent events of `GET /v1/stream`.

use reqwest::Response;
use turno_api::problem::Problem;

use super::Client;
use super::error::{Error, Result};
use super::locks::said;
use super::path::Target;

/// Maximum size of a line and of an event, in bytes.
const LARGEST: usize = 8 * 1024 * 1024;

/// A stream of server-sent events. Dropping it closes the connection.
#[derive(Debug)]
pub struct Stream {
    response: Response,
    server: String,
    parser: Parser,
}

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamEvent {
    /// Type of the event, such as `snapshot`.
    pub event: String,
    /// The event's data, as JSON text.
    pub data: String,
    /// Position in the stream, if the event has one.
    pub id: Option<String>,
}

impl Client {
    /// Opens a stream of the changes to names that begin with a prefix; empty: all names.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable or the access token does not permit the stream.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::Client;
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let mut stream = client.stream("PRESTAMO/").await?;
    /// while let Some(event) = stream.next().await? {
    ///     println!("{}: {}", event.event, event.data);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn stream(&self, prefix: &str) -> Result<Stream> {
        let target = Target::new("v1/stream").with("prefix", said(prefix));
        let request = self
            .request(reqwest::Method::GET, target.on(&self.url)?)
            .header(reqwest::header::ACCEPT, "text/event-stream");
        let unanswered = |error| super::send::unanswered(self.url(), error);
        let response = request.send().await.map_err(unanswered)?;
        if response.status().is_success() {
            return Ok(Stream {
                response,
                server: self.url().to_owned(),
                parser: Parser::default(),
            });
        }
        let status = response.status();
        let body = response.bytes().await.map_err(unanswered)?;
        Err(match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Error::problem_of(problem),
            Err(_) => Error::broken(format!("{} answered {status}", self.url())),
        })
    }
}

impl Stream {
    /// Returns the next event; `None` when the server has ended the stream. Cancel-safe.
    ///
    /// # Errors
    /// Returns an error if the connection is lost or an event is larger than 8 MiB.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>> {
        loop {
            if let Some(event) = self.parser.next()? {
                return Ok(Some(event));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.parser.feed(&bytes),
                Ok(None) => return Ok(None),
                Err(error) => return Err(super::send::unanswered(&self.server, error)),
            }
        }
    }
}

/// Incremental parser: bytes to events.
#[derive(Debug, Default)]
struct Parser {
    unread: Vec<u8>,
    event: StreamEvent,
    has_data: bool,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Returns the next complete event, if there is one.
    fn next(&mut self) -> Result<Option<StreamEvent>> {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if !line.is_empty() {
                self.line(line);
                continue;
            }
            let event = std::mem::take(&mut self.event);
            // An event without data is a comment that keeps the connection alive.
            if std::mem::take(&mut self.has_data) {
                return Ok(Some(event));
            }
        }
        if self.unread.len() > LARGEST || self.event.data.len() > LARGEST {
            return Err(Error::broken(format!(
                "an event of the stream has more than {LARGEST} bytes: narrow the prefix"
            )));
        }
        Ok(None)
    }

    fn line(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.event = value.to_owned(),
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            // A comment or an unknown field.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any split of the bytes into chunks.
    #[test]
    fn events_are_read_as_they_come() {
        let text = ": hello\n\nevent: lock\r\nid: 7\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n:keep\n\ndata:é\n\ndata: half";
        for size in [1, 2, 7, text.len()] {
            let (mut parser, mut events) = (Parser::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                parser.feed(piece);
                while let Some(event) = parser.next().unwrap() {
                    events.push(event);
                }
            }
            let lock = StreamEvent {
                event: "lock".into(),
                data: "{\"a\":\n1}".into(),
                id: Some("7".into()),
            };
            let other = StreamEvent {
                data: "é".into(),
                ..StreamEvent::default()
            };
            assert_eq!(events, [lock, other], "{size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        parser.feed(&vec![b'x'; LARGEST + 1]);
        assert!(parser.next().is_err());
    }
}
