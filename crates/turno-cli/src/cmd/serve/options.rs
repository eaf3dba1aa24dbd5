//! Options of the server, over the environment, over the file, over the defaults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use turno::lock::Sweep;
use turno::{Settings, Turno};
use turno_server::{ADDRESS, Admission, MakeRelay, Options, TlsFiles};

use crate::cmd::outbox::relay::{Inside, configured_table};
use crate::config::{Cleanup, MOST, MOST_CONNECTIONS, Serve};
use crate::context::Context;
use crate::fail::Usage;
use crate::logging::LogFormat;
use crate::{duration, redact, size};

/// Serve locks, inbox, outbox and once over HTTP, for programs in any language
#[derive(Debug, Args)]
#[command(after_help = "\
The API is described in /openapi.json and docs/serve.md.
Until the first access token is created with `turno token create`, the server is open to callers on
this machine, and does not start on other addresses.
It sweeps the store according to [cleanup] in turno.toml, pushes the items of [[schedule]], and
relays events if [outbox] has a sink.
INT and TERM stop it after the requests in flight are answered; a second signal ends it at once.
Every option can also be set in [serve] of turno.toml.")]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:7117]
    #[arg(
        long,
        env = "TURNO_LISTEN",
        hide_env_values = true,
        value_name = "ADDR",
        value_parser = crate::listen::parse
    )]
    listen: Option<SocketAddr>,

    /// TLS certificate with its chain, in PEM; reloaded when it changes, and on HUP
    #[arg(
        long,
        env = "TURNO_TLS_CERT",
        hide_env_values = true,
        value_name = "FILE"
    )]
    tls_cert: Option<PathBuf>,

    /// Private key of the TLS certificate, in PEM
    #[arg(
        long,
        env = "TURNO_TLS_KEY",
        hide_env_values = true,
        value_name = "FILE"
    )]
    tls_key: Option<PathBuf>,

    /// Admit all callers without a token, on any address
    #[arg(long)]
    insecure: bool,

    /// Host name that clients may use for a server with --insecure, besides its addresses
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// Number of connections to a PostgreSQL store [default: 16]
    #[arg(long, env = "TURNO_CONNECTIONS", hide_env_values = true, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CONNECTIONS)))]
    connections: Option<u32>,

    /// Maximum number of client connections; further clients wait [default: 10000]
    #[arg(long, env = "TURNO_MAX_CONNECTIONS", hide_env_values = true, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    max_connections: Option<u32>,

    /// Maximum size of a request body [default: 16MiB]
    #[arg(long, env = "TURNO_MAX_BODY", hide_env_values = true, value_name = "BYTES", value_parser = some_bytes)]
    max_body: Option<usize>,

    /// Maximum time that one request may wait; clients repeat it to wait longer [default: 60s]
    #[arg(long, env = "TURNO_MAX_WAIT", hide_env_values = true, value_name = "DURATION", value_parser = duration::above_zero, allow_hyphen_values = true)]
    max_wait: Option<Duration>,

    /// Maximum number of requests per second and caller [default: no limit]
    #[arg(long, env = "TURNO_RATE", hide_env_values = true, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    rate: Option<u32>,

    /// Maximum time for requests in flight to end at shutdown [default: 30s]
    #[arg(long, env = "TURNO_DRAIN", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    drain: Option<Duration>,

    /// Format of the log on standard error: human or json [default: human]
    #[arg(
        long,
        env = "TURNO_LOG_FORMAT",
        hide_env_values = true,
        value_enum,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    log_format: Option<LogFormat>,
}

fn some_bytes(text: &str) -> Result<usize, String> {
    match size::parse(text)? {
        0 => Err("must be above zero: give a size such as 16MiB".to_owned()),
        bytes => Ok(bytes),
    }
}

fn whole(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl ServeArgs {
    pub(super) fn listen(&self, file: &Serve) -> Result<SocketAddr, Usage> {
        let said = self
            .listen
            .or(file.listen)
            .map_or_else(|| ADDRESS.parse(), Ok);
        said.map_err(|_| Usage::new("listen", "give an address such as 127.0.0.1:7117"))
    }

    pub(super) fn connections(&self, file: &Serve) -> usize {
        self.connections
            .or(file.connections())
            .map_or(Settings::default().connections, whole)
    }

    pub(crate) fn log_format(&self, file: &Serve) -> LogFormat {
        self.log_format.or(file.log_format).unwrap_or_default()
    }

    pub(super) fn is_insecure(&self, file: &Serve) -> bool {
        self.insecure || file.insecure == Some(true)
    }

    /// Returns certificate and key: both or none.
    pub(super) fn tls(&self, file: &Serve) -> Result<Option<TlsFiles>, Usage> {
        let cert = self.tls_cert.clone().or(file.tls_cert.clone());
        let key = self.tls_key.clone().or(file.tls_key.clone());
        match (cert, key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
            (Some(_), None) => Err(Usage::new(
                "tls_key",
                "a certificate needs its key: give it with --tls-key",
            )),
            (None, Some(_)) => Err(Usage::new(
                "tls_cert",
                "a key needs its certificate: give it with --tls-cert",
            )),
        }
    }

    pub(super) fn options(&self, context: &Context, turno: &Turno) -> anyhow::Result<Options> {
        let file = &context.serve;
        let defaults = Options::default();
        Ok(Options {
            store: Some(redact::url(&context.store)),
            admission: if self.is_insecure(file) {
                Admission::All
            } else {
                Admission::TokenOrLocal
            },
            hosts: match self.hosts.as_slice() {
                [] => file.hosts.clone(),
                named => named.to_vec(),
            },
            inbox_lease: context.inbox_lease,
            max_wait: self
                .max_wait
                .or(file.max_wait())
                .unwrap_or(defaults.max_wait),
            max_body: self
                .max_body
                .or(file.max_body())
                .unwrap_or(defaults.max_body),
            max_connections: self
                .max_connections
                .or(file.max_connections())
                .map_or(defaults.max_connections, whole),
            rate: self.rate.or(file.rate()),
            drain: self.drain.or(file.drain()).unwrap_or(defaults.drain),
            tls: self.tls(file)?,
            set_span_parent: crate::telemetry::set_span_parent(),
            sweep: sweep(context.cleanup.as_ref()),
            schedules: context
                .schedules
                .iter()
                .map(|schedule| schedule.over(turno))
                .collect(),
            relay: relay(context, turno)?,
            outbox_table: configured_table(&context.outbox)?,
            ..defaults
        })
    }
}

/// Returns the sweep of `[cleanup]`. Also without that section, because a server runs all the time.
fn sweep(file: Option<&Cleanup>) -> Option<(Duration, Sweep)> {
    let defaults = Cleanup::default();
    let cleanup = file.unwrap_or(&defaults);
    cleanup
        .enabled
        .then(|| (cleanup.interval(), cleanup.sweep()))
}

/// Returns the relay, if a sink is configured.
fn relay(context: &Context, turno: &Turno) -> anyhow::Result<Option<MakeRelay>> {
    let Some(inside) = Inside::configured(&context.outbox)? else {
        return Ok(None);
    };
    tracing::info!(sink = inside.sink_name(), "the relay is configured");
    let turno = turno.clone();
    Ok(Some(MakeRelay::new(move || inside.relay(&turno))))
}
