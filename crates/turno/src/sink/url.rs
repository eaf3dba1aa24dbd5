//! Creates a sink from a URL.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Sink, Stdout, Unroutable};
use crate::error::{Error, Kind, Result};

/// Options of a sink that are not in its URL. A sink ignores options that do not apply to it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SinkOptions {
    /// RabbitMQ: exchange. Default: `turno.events`.
    pub exchange: Option<String>,
    /// RabbitMQ: what happens to an event that no queue is bound for. Default: [`Unroutable::Dead`].
    pub unroutable: Option<Unroutable>,
    /// RabbitMQ: overrides `unroutable` for the events of one type.
    pub unroutable_of: BTreeMap<String, Unroutable>,
    /// NATS: prefix of the subject, before the routing key and a dot.
    pub subject_prefix: Option<String>,
    /// Webhook: secret that signs requests, `whsec_` and base64.
    pub secret: Option<String>,
    /// Webhook: whether private and local addresses may be called.
    pub allow_private: bool,
    /// Timeout of a response.
    pub timeout: Option<Duration>,
    /// Webhook: `source` of CloudEvents. Default: `turno`.
    pub source: Option<String>,
}

impl fmt::Debug for SinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOptions")
            .field("exchange", &self.exchange)
            .field("unroutable", &self.unroutable)
            .field("unroutable_of", &self.unroutable_of)
            .field("subject_prefix", &self.subject_prefix)
            .field("secret", &self.secret.as_ref().map(|_| "…"))
            .field("allow_private", &self.allow_private)
            .field("timeout", &self.timeout)
            .field("source", &self.source)
            .finish()
    }
}

/// Creates the sink for a URL: `amqp://` or `amqps://`, `nats://` or `tls://`, `http://` or `https://`, `stdout:`.
///
/// ```
/// use turno::sink::{SinkOptions, from_url};
///
/// let sink = from_url("stdout:", &SinkOptions::default())?;
/// assert_eq!(sink.name(), "standard output");
/// # Ok::<(), turno::Error>(())
/// ```
///
/// # Errors
/// Returns an error if there is no such sink, if this program was built without it, or if the URL or an option is
/// invalid. No message contains a password.
pub fn from_url(url: &str, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme.to_ascii_lowercase().as_str() {
        "stdout" => Ok(Arc::new(Stdout::new())),
        "amqp" | "amqps" => rabbitmq(url, options),
        "nats" | "tls" => nats(url, options),
        "http" | "https" => webhook(url, options),
        _ => Err(Error::invalid(
            "sink",
            "there is no such sink: give amqp://…, amqps://…, nats://…, tls://…, https://…, http://… or stdout:",
        )),
    }
}

#[cfg(feature = "rabbitmq")]
fn rabbitmq(url: &str, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
    let mut sink = super::RabbitMq::new(url)?;
    if let Some(exchange) = &options.exchange {
        sink = sink.exchange(exchange);
    }
    if let Some(choice) = options.unroutable {
        sink = sink.unroutable(choice);
    }
    for (kind, choice) in &options.unroutable_of {
        sink = sink.unroutable_of_type(kind, *choice);
    }
    if let Some(timeout) = options.timeout {
        sink = sink.confirm_timeout(timeout);
    }
    Ok(Arc::new(sink))
}

#[cfg(not(feature = "rabbitmq"))]
fn rabbitmq(_: &str, _: &SinkOptions) -> Result<Arc<dyn Sink>> {
    Err(left_out("RabbitMQ", "rabbitmq"))
}

#[cfg(feature = "nats")]
fn nats(url: &str, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
    let mut sink = super::Nats::new(url)?;
    if let Some(prefix) = &options.subject_prefix {
        sink = sink.subject_prefix(prefix);
    }
    if let Some(timeout) = options.timeout {
        sink = sink.timeout(timeout);
    }
    Ok(Arc::new(sink))
}

#[cfg(not(feature = "nats"))]
fn nats(_: &str, _: &SinkOptions) -> Result<Arc<dyn Sink>> {
    Err(left_out("NATS", "nats"))
}

#[cfg(feature = "webhook")]
fn webhook(url: &str, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
    let mut sink = super::Webhook::new(url)?.allow_private(options.allow_private);
    if let Some(secret) = &options.secret {
        sink = sink.secret(secret)?;
    }
    if let Some(source) = &options.source {
        sink = sink.source(source);
    }
    if let Some(timeout) = options.timeout {
        sink = sink.timeout(timeout);
    }
    Ok(Arc::new(sink))
}

#[cfg(not(feature = "webhook"))]
fn webhook(_: &str, _: &SinkOptions) -> Result<Arc<dyn Sink>> {
    Err(left_out("webhooks", "webhook"))
}

#[cfg_attr(
    all(feature = "rabbitmq", feature = "nats", feature = "webhook"),
    expect(dead_code, reason = "nothing was left out")
)]
fn left_out(what: &str, feature: &str) -> Error {
    Error::new(
        Kind::invalid("sink"),
        format!("this program was built without {what}: build it with cargo's feature `{feature}`"),
    )
}
