//! Sink for NATS JetStream, with an acknowledgement for every event.

mod message;
mod verdict;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, context::PublishAckFuture};
use async_nats::{ConnectOptions, ServerAddr};
use async_trait::async_trait;
use tokio::sync::Mutex;

use self::message::Message;
use self::verdict::Answer;
use super::{Outage, Outgoing, PublishResult, Sink, tls};
use crate::error::{Error, Result};

/// Default timeout of a request to the server.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Publishes events to NATS JetStream, which stores them.
///
/// The subject is the [routing key](super::routing_key) of the event's type, with an optional
/// [prefix](Nats::subject_prefix). A stream must accept it. `Nats-Msg-Id` is the event's id, so that the stream drops a
/// duplicate within its duplicate window. The other headers are the same as in [`RabbitMq`](super) messages.
///
/// ```no_run
/// # fn main() -> turno::Result<()> {
/// use turno::sink::Nats;
///
/// let sink = Nats::new("nats://user:password@nats:4222")?.subject_prefix("ticketflow");
/// # Ok(()) }
/// ```
#[must_use = "events go to it through a relay"]
pub struct Nats {
    servers: Vec<ServerAddr>,
    credentials: Option<String>,
    authorities: Option<String>,
    prefix: Option<String>,
    timeout: Duration,
    context: Mutex<Option<jetstream::Context>>,
}

impl Nats {
    /// Creates a sink at `nats://user:password@host:port`, or `tls://…`. Several servers of one cluster are separated by
    /// commas. It connects on first use.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid. The message does not contain it.
    pub fn new(url: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(
                "url",
                "the URL of NATS cannot be read: write nats://user:password@host:4222 or tls://…, with what is not a \
                 letter or a digit in user and password percent-encoded",
            )
        };
        let server = |url: &str| match url.trim() {
            url if url.starts_with("nats://") || url.starts_with("tls://") => {
                ServerAddr::from_str(url).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        };
        Ok(Nats {
            servers: url.split(',').map(server).collect::<Result<_>>()?,
            credentials: None,
            authorities: None,
            prefix: None,
            timeout: TIMEOUT,
            context: Mutex::new(None),
        })
    }

    /// Sets a prefix of the subject: with `ticketflow`, an event is published to `ticketflow.ticket.created`. Default: none.
    pub fn subject_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets the timeout of a response from the server. Default: 10 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the content of a credentials file (`.creds`). Default: the user and password of the URL.
    pub fn credentials(mut self, credentials: impl Into<String>) -> Self {
        self.credentials = Some(credentials.into());
        self
    }

    /// Sets CA certificates in PEM that are trusted in addition to those of the system. Default: none.
    pub fn authorities(mut self, pem: impl Into<String>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Returns the addresses of the servers without credentials.
    fn place(&self) -> String {
        let one = |server: &ServerAddr| format!("{}:{}", server.host(), server.port());
        self.servers.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn outage(&self, reason: impl fmt::Display) -> Outage {
        Outage::new(format!("NATS at {}: {reason}", self.place()))
    }

    /// Returns the connection; connects if there is none. The client library's own reconnecting is not used: it buffers
    /// messages while it has no connection, and sends them after the relay has given them up.
    async fn context(&self) -> Result<jetstream::Context, Outage> {
        let mut slot = self.context.lock().await;
        if let Some(context) = slot.as_ref()
            && context.client().connection_state() == State::Connected
        {
            return Ok(context.clone());
        }
        *slot = None;
        let connecting = self.options()?.connect(&self.servers[..]);
        let client = match tokio::time::timeout(self.timeout, connecting).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                return Err(self.outage(format!("cannot connect: {}", verdict::root(&error))));
            }
            Err(_) => return Err(self.outage(format!("no answer within {:?}", self.timeout))),
        };
        tracing::debug!(server = self.place(), "connected to NATS");
        let context = jetstream::context::ContextBuilder::new()
            .timeout(self.timeout)
            .build(client);
        *slot = Some(context.clone());
        Ok(context)
    }

    fn options(&self) -> Result<ConnectOptions, Outage> {
        let mut options = match &self.credentials {
            Some(credentials) => ConnectOptions::with_credentials(credentials)
                .map_err(|_| self.outage("the credentials cannot be read"))?,
            None => ConnectOptions::new(),
        };
        match tls::client(self.authorities.as_deref()) {
            Ok(tls) => options = options.tls_client_config(tls),
            // Certificates that cannot be loaded are an error only if TLS is required.
            Err(_)
                if self.authorities.is_none()
                    && !self.servers.iter().any(|it| it.tls_required()) => {}
            Err(reason) => return Err(self.outage(reason)),
        }
        Ok(options.name("turno relay").connection_timeout(self.timeout))
    }

    /// Drops a connection that does not respond.
    async fn forget(&self) {
        *self.context.lock().await = None;
    }

    /// Waits for acknowledgements. After the first timeout it collects only those that have already arrived.
    async fn acknowledged(&self, waiting: Vec<(usize, PublishAckFuture)>, answers: &mut [Answer]) {
        let mut timeout = self.timeout;
        for (place, waiting) in waiting {
            answers[place] = match tokio::time::timeout(timeout, waiting.into_future()).await {
                Ok(Ok(_)) => Answer::Stored,
                Ok(Err(error)) => Answer::from(error),
                Err(_) => Answer::Silence,
            };
            if matches!(answers[place], Answer::Silence) {
                timeout = Duration::ZERO;
            }
        }
    }
}

#[async_trait]
impl Sink for Nats {
    fn name(&self) -> String {
        format!("NATS JetStream at {}", self.place())
    }

    async fn ready(&self) -> Result<(), Outage> {
        let context = self.context().await?;
        let client = context.client();
        let asked = client.request("$JS.API.INFO", "".into());
        let reason = match tokio::time::timeout(self.timeout, asked).await {
            Ok(Ok(answer)) => match verdict::denied(&answer.payload) {
                None => return Ok(()),
                Some(reason) => reason,
            },
            Ok(Err(error)) => verdict::root(&error),
            Err(_) => format!("no answer within {:?}", self.timeout),
        };
        self.forget().await;
        Err(self.outage(format!(
            "JetStream does not answer, or is not enabled: {reason}"
        )))
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let context = match self.context().await {
            Ok(context) => context,
            Err(outage) => return vec![PublishResult::Unsent(outage); events.len()],
        };
        let mut answers: Vec<Answer> = Vec::with_capacity(events.len());
        let mut waiting = Vec::with_capacity(events.len());
        for event in events {
            if context.client().connection_state() != State::Connected {
                break;
            }
            let place = answers.len();
            let message = match Message::new(event, self.prefix.as_deref()) {
                Ok(message) => message,
                Err(reason) => {
                    answers.push(Answer::Unfit(reason));
                    continue;
                }
            };
            let handed =
                context.publish_with_headers(message.subject, message.headers, message.payload);
            match tokio::time::timeout(self.timeout, handed).await {
                Ok(Ok(acknowledgement)) => {
                    waiting.push((place, acknowledgement));
                    answers.push(Answer::Silence);
                }
                Ok(Err(error)) => answers.push(Answer::from(error)),
                Err(_) => {
                    answers.push(Answer::Silence);
                    break;
                }
            }
        }
        self.acknowledged(waiting, &mut answers).await;
        answers.resize_with(events.len(), || Answer::Unsent);
        if answers
            .iter()
            .any(|answer| matches!(answer, Answer::Silence | Answer::Unsent))
        {
            self.forget().await;
        }
        verdict::fates(self, &context, events, answers).await
    }

    async fn close(&self) {
        if let Some(context) = self.context.lock().await.take() {
            let _ = tokio::time::timeout(self.timeout, context.client().drain()).await;
        }
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats")
            .field("servers", &self.place())
            .field("subject_prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
