//! Options of the sink: the command line over the environment, over the file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use tokio_util::sync::CancellationToken;
use turno::sink::{self, Sink, SinkOptions, Unroutable};

use super::flow::of_type;
use super::reader::WithReader;
use crate::config::Outbox;
use crate::duration;
use crate::fail::Usage;
use crate::secrets;

#[derive(Debug, Args)]
pub(super) struct SinkArgs {
    /// URL of the sink, such as amqp://broker:5672/vhost; put a URL with a password into TURNO_SINK or a file
    #[arg(long, env = "TURNO_SINK", hide_env_values = true, value_name = "URL")]
    sink: Option<String>,

    /// File with the URL of the sink, used without --sink
    #[arg(
        long,
        env = "TURNO_SINK_FILE",
        hide_env_values = true,
        value_name = "FILE"
    )]
    sink_file: Option<PathBuf>,

    /// RabbitMQ: exchange, durable and of type topic [default: turno.events]
    #[arg(
        long,
        env = "TURNO_EXCHANGE",
        hide_env_values = true,
        value_name = "NAME"
    )]
    exchange: Option<String>,

    /// RabbitMQ: what happens to an event that no queue is bound for: dead (after all attempts), keep (until a queue is bound) or drop; TYPE=keep for one type; can be repeated [default: dead]
    #[arg(long, env = "TURNO_UNROUTABLE", hide_env_values = true, value_name = "[TYPE=]CHOICE", value_parser = unroutable)]
    unroutable: Vec<(Option<String>, Unroutable)>,

    /// NATS: prefix of the subject, before a dot and the routing key
    #[arg(
        long,
        env = "TURNO_SUBJECT_PREFIX",
        hide_env_values = true,
        value_name = "TEXT"
    )]
    subject_prefix: Option<String>,

    /// Webhook: `source` of the CloudEvents [default: turno]
    #[arg(
        long,
        env = "TURNO_EVENT_SOURCE",
        hide_env_values = true,
        value_name = "TEXT"
    )]
    source: Option<String>,

    /// Webhook: secret that signs the requests, whsec_ and base64; better in TURNO_WEBHOOK_SECRET or a file
    #[arg(
        long,
        env = "TURNO_WEBHOOK_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    secret: Option<String>,

    /// Webhook: file with the secret, used without --secret
    #[arg(
        long,
        env = "TURNO_WEBHOOK_SECRET_FILE",
        hide_env_values = true,
        value_name = "FILE"
    )]
    secret_file: Option<PathBuf>,

    /// Webhook: allow private and local addresses
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

    /// Timeout of the sink [default: 10s]
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
        self.sink.is_some()
            || self.sink_file.is_some()
            || file.sink.is_some()
            || file.sink_file.is_some()
    }

    /// The sink's URL: the option or its variable, the file that they name, `turno.toml`, the file that it names.
    fn url(&self, file: &Outbox) -> Result<Option<String>, Usage> {
        either(
            "sink",
            (&self.sink, &self.sink_file),
            (&file.sink, &file.sink_file),
        )
    }

    /// The webhook's secret, found in the same way.
    fn secret(&self, file: &Outbox) -> Result<Option<String>, Usage> {
        either(
            "secret",
            (&self.secret, &self.secret_file),
            (&file.secret, &file.secret_file),
        )
    }

    /// Whether events go to a webhook, and there is no secret to sign them with.
    pub(super) fn is_unsigned_webhook(&self, file: &Outbox) -> Result<bool, Usage> {
        let url = self.url(file)?;
        let scheme = url
            .as_deref()
            .and_then(|url| url.split_once(':'))
            .map(|it| it.0);
        let is_webhook = scheme.is_some_and(|scheme| {
            scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
        });
        Ok(is_webhook && self.secret(file)?.is_none())
    }

    /// Returns the sink, not connected.
    pub(super) fn open(&self, file: &Outbox) -> anyhow::Result<Opened> {
        let url = self.url(file)?.ok_or_else(|| {
            Usage::new(
                "sink",
                "sink is missing: set it with --sink amqp://… (or nats://…, https://…, stdout:), \
                 TURNO_SINK, a file that --sink-file names, or sink in [outbox] of turno.toml",
            )
        })?;
        let sink = sink::from_url(&url, &self.options(file)?)?;
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
        let mut options = SinkOptions::default();
        options.exchange = or(&self.exchange, file.exchange());
        options.unroutable = file.unroutable;
        options.unroutable_of.clone_from(&file.unroutable_of);
        for (kind, choice) in &self.unroutable {
            match kind {
                Some(kind) => {
                    options.unroutable_of.insert(kind.clone(), *choice);
                }
                None => options.unroutable = Some(*choice),
            }
        }
        options.subject_prefix = or(&self.subject_prefix, file.subject_prefix());
        options.secret = self.secret(file)?;
        options.allow_private = allow_private.unwrap_or(false);
        options.timeout = self.timeout.or(file.timeout());
        options.source = or(&self.source, file.source());
        Ok(options)
    }
}

fn unroutable(text: &str) -> Result<(Option<String>, Unroutable), String> {
    of_type(text, "dead, keep or drop", "keep")
}

/// A value and the file that may hold it.
type ValueOrFile<'a> = (&'a Option<String>, &'a Option<PathBuf>);

/// A value of the command line or the environment, over that of `turno.toml`; each itself, over the file that it names.
fn either(
    name: &str,
    said: ValueOrFile<'_>,
    file: ValueOrFile<'_>,
) -> Result<Option<String>, Usage> {
    if let (Some(_), Some(_)) = file {
        return Err(Usage::new(
            format!("outbox.{name}_file"),
            format!(
                "[outbox] of the configuration file has both {name} and {name}_file: remove one of them"
            ),
        ));
    }
    for (value, path) in [said, file] {
        match (value, path) {
            (Some(value), _) => return Ok(Some(value.clone())),
            (None, Some(path)) => return secrets::of_file(&format!("{name}_file"), path).map(Some),
            (None, None) => {}
        }
    }
    Ok(None)
}
