//! Options of the sink: the command line over the environment, over the file.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use tokio_util::sync::CancellationToken;
use turno::sink::{self, Sink, SinkOptions};

use super::reader::WithReader;
use crate::config::Outbox;
use crate::duration;
use crate::fail::Usage;

#[derive(Debug, Args)]
pub(super) struct SinkArgs {
    /// Where events go, such as amqp://user:password@broker:5672/vhost
    #[arg(long, env = "TURNO_SINK", hide_env_values = true, value_name = "URL")]
    sink: Option<String>,

    /// RabbitMQ: the exchange, durable and of type topic [default: turno.events]
    #[arg(
        long,
        env = "TURNO_EXCHANGE",
        hide_env_values = true,
        value_name = "NAME"
    )]
    exchange: Option<String>,

    /// NATS: goes before the routing key, with a dot, to make the subject
    #[arg(
        long,
        env = "TURNO_SUBJECT_PREFIX",
        hide_env_values = true,
        value_name = "TEXT"
    )]
    subject_prefix: Option<String>,

    /// Webhook: the `source` of CloudEvents [default: turno]
    #[arg(
        long,
        env = "TURNO_EVENT_SOURCE",
        hide_env_values = true,
        value_name = "TEXT"
    )]
    source: Option<String>,

    /// Webhook: the secret that requests are signed with, whsec_ and base64
    #[arg(
        long,
        env = "TURNO_WEBHOOK_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    secret: Option<String>,

    /// Webhook: private and local addresses may be called
    #[arg(
        long,
        env = "TURNO_ALLOW_PRIVATE",
        hide_env_values = true,
        value_name = "true|false",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    allow_private: Option<bool>,

    /// How long the sink may take to answer [default: 10s]
    #[arg(long, env = "TURNO_SINK_TIMEOUT", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

/// A sink, and what the command must know about it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) sink: Arc<dyn Sink>,
    /// Events are printed on standard output. Then nothing else may be.
    pub(super) is_stdout: bool,
    /// Cancelled when the reader of standard output is gone.
    pub(super) reader_gone: CancellationToken,
}

impl SinkArgs {
    /// Whether a sink is configured.
    pub(super) fn is_named(&self, file: &Outbox) -> bool {
        self.sink.is_some() || file.sink.is_some()
    }

    /// Whether the sink is a webhook without a secret to sign its requests.
    pub(super) fn is_unsigned_webhook(&self, file: &Outbox) -> bool {
        let url = self.sink.as_deref().or(file.sink.as_deref());
        let scheme = url.and_then(|url| url.split_once(':')).map(|it| it.0);
        let is_webhook = scheme.is_some_and(|scheme| {
            scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
        });
        is_webhook && self.secret.is_none() && file.secret.is_none()
    }

    /// Returns the sink, not connected.
    pub(super) fn open(&self, file: &Outbox) -> anyhow::Result<Opened> {
        let url = self.sink.as_deref().or(file.sink.as_deref());
        let url = url.ok_or_else(|| {
            Usage::new(
                "sink",
                "sink is not given: say where events go with --sink amqp://… (or nats://…, https://…, stdout:), \
                 TURNO_SINK, or sink in [outbox] of turno.toml",
            )
        })?;
        let sink = sink::from_url(url, &self.options(file)?)?;
        let is_stdout = url
            .split_once(':')
            .is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("stdout"));
        let reader_gone = CancellationToken::new();
        let sink = if is_stdout {
            Arc::new(WithReader::new(sink, reader_gone.clone()))
        } else {
            sink
        };
        Ok(Opened {
            sink,
            is_stdout,
            reader_gone,
        })
    }

    fn options(&self, file: &Outbox) -> Result<SinkOptions, Usage> {
        if self.timeout == Some(Duration::ZERO) {
            return Err(Usage::new(
                "timeout",
                "timeout must be above zero: give a duration such as 10s",
            ));
        }
        let or = |said: &Option<String>, file: Option<String>| said.clone().or(file);
        let allow_private = self.allow_private.or(file.allow_private);
        Ok(SinkOptions {
            exchange: or(&self.exchange, file.exchange()),
            subject_prefix: or(&self.subject_prefix, file.subject_prefix()),
            secret: or(&self.secret, file.secret.clone()),
            allow_private: allow_private.unwrap_or(false),
            timeout: self.timeout.or(file.timeout()),
            source: or(&self.source, file.source()),
        })
    }
}
