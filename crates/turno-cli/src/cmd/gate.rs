//! `turno gate`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turno::once::Identities;
use turno::{Settings, Turno};
use turno_server::gate::{Counts, Gate, HostHeader, Options, Upstream};

use crate::answer_keys;
use crate::context::Context;
use crate::duration;
use crate::fail::{self, Usage};
use crate::gate::{self, RoutesFile};
use crate::output::number;
use crate::redact;
use crate::signals::{ENDING, Signals, exit_code};

/// Where the secret of identities is, for those who keep it in no file.
const SECRET: &str = "TURNO_ONCE_SECRET";
/// Begins and completions that arrive together share a call; so many calls go on at once.
const CONNECTIONS: usize = 8;

/// Answer the requests of a service once: a reverse proxy before it
#[derive(Debug, Args)]
#[command(after_help = "\
The routes file says which requests are answered once, and how; all others pass as they are. It is
described in docs/gate.md, and examples/gate/routes.toml is one. Begin with switch = \"shadow\": it
counts what would be a duplicate, and changes nothing.
A secret (16 bytes or more, in --secret-file or TURNO_ONCE_SECRET) keeps whoever reads the store
from guessing contents and keys; all gates before one service need the same. Answers are sealed with
the keys in TURNO_ANSWER_KEYS, or in the file that answer_keys_file in [once] of turno.toml names.
The gate speaks HTTP/1.1 and HTTP/2 without TLS, and adds no authentication: put it between your TLS
terminator and the service.
INT and TERM end it when what is in flight is done, a second one ends it at once.")]
pub(crate) struct GateArgs {
    /// The service behind the gate: http://HOST:PORT, or h2c://HOST:PORT for HTTP/2
    #[arg(
        long,
        env = "TURNO_UPSTREAM",
        hide_env_values = true,
        value_name = "URL",
        required_unless_present = "check"
    )]
    upstream: Option<Upstream>,

    /// The routes file
    #[arg(
        long,
        env = "TURNO_ROUTES",
        hide_env_values = true,
        value_name = "FILE"
    )]
    routes: PathBuf,

    /// Where to listen
    #[arg(
        long,
        env = "TURNO_GATE_LISTEN",
        hide_env_values = true,
        value_name = "ADDR",
        default_value = "127.0.0.1:7118",
        value_parser = crate::listen::parse
    )]
    listen: SocketAddr,

    /// The file with the secret of the identities
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Which Host the service gets: the client's, or its own
    #[arg(long, value_enum, value_name = "WHOSE", default_value = "client")]
    host: Host,

    /// How long the service may take to begin its answer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = above_zero, allow_hyphen_values = true)]
    answer_timeout: Duration,

    /// How long a connection to the service may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = above_zero, allow_hyphen_values = true)]
    connect_timeout: Duration,

    /// How long an idle connection to the service is used again; keep it below the service's own
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_alive: Duration,

    /// How long work in flight may take to end when the gate is stopped
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse, allow_hyphen_values = true)]
    drain: Duration,

    /// How many clients may be connected; more wait
    #[arg(long, value_name = "NUMBER", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,

    /// Only examine the routes file, and print what each route does
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Host {
    Client,
    Upstream,
}

fn above_zero(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        Duration::ZERO => Err("must be above zero: give a duration such as 30s".to_owned()),
        time => Ok(time),
    }
}

pub(crate) async fn run(context: &Context, args: GateArgs) -> Result<ExitCode> {
    let routes = gate::read(&args.routes)?;
    if args.check {
        gate::explain(&routes, context.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let identities = args.identities()?;
    let settings = Settings {
        connections: CONNECTIONS,
        answer_keys: answer_keys::read(&context.once)?,
        ..context.settings.clone()
    };
    let counts = context
        .with(settings, async |turno| {
            serve(context, turno, &args, &routes, identities).await
        })
        .await?;
    tell(context, counts)?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    context: &Context,
    turno: &Turno,
    args: &GateArgs,
    routes: &RoutesFile,
    identities: Identities,
) -> Result<Counts> {
    let upstream = args.upstream()?;
    let gate = Gate::new(
        turno.clone(),
        upstream.clone(),
        routes.routes(&upstream)?,
        args.options(identities),
    );
    let mut signals = Signals::listen(&ENDING)?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Usage::new(
            "listen",
            format!(
                "{} cannot be listened on ({error}): name another address with --listen",
                args.listen
            ),
        )
    })?;
    announce(context, listener.local_addr()?, &upstream)?;
    let stop = CancellationToken::new();
    let mut work = std::pin::pin!(gate.serve(listener, stop.clone()));
    loop {
        tokio::select! {
            counts = &mut work => return Ok(counts),
            signal = signals.next() => stopped(signal, &stop),
        }
    }
}

/// Where it listens, for people and for programs that start it.
fn announce(context: &Context, address: SocketAddr, upstream: &Upstream) -> Result<()> {
    tracing::info!(
        store = redact::url(&context.store),
        upstream = %upstream.authority(),
        "the gate is open"
    );
    if !address.ip().is_loopback() {
        fail::warn(
            "the gate listens on more than this machine, and adds no authentication and no TLS: let only those reach it who may reach the service",
            context.output,
        );
    }
    if context.output.is_json() {
        return context.output.json(&json!({
            "listening": address.to_string(),
            "upstream": upstream.authority().as_str(),
        }));
    }
    context.output.line(&format!(
        "listening on http://{address} for {}",
        upstream.authority()
    ))
}

/// The first signal is a request, the second an order.
fn stopped(signal: Signal, stop: &CancellationToken) {
    if stop.is_cancelled() {
        // Not even the store is waited for: what is in flight is unknown when its lease is over.
        std::process::exit(exit_code(signal.as_raw()).into());
    }
    tracing::info!("told to stop; what is in flight is done first. Once more, and it ends at once");
    stop.cancel();
}

/// What it came to.
fn tell(context: &Context, counts: Counts) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(&counts);
    }
    let header = [
        "FRESH",
        "REPLAYED",
        "IN FLIGHT",
        "MISMATCH",
        "UNKNOWN",
        "SHADOWED",
    ];
    let row = [
        counts.fresh,
        counts.replayed,
        counts.in_flight,
        counts.mismatch,
        counts.unknown,
        counts.shadowed,
    ];
    context
        .output
        .table(&header, vec![row.map(number).to_vec()])
}

impl GateArgs {
    fn upstream(&self) -> Result<Upstream> {
        let Some(upstream) = &self.upstream else {
            return Err(Usage::new("upstream", "name the service with --upstream URL").into());
        };
        Ok(upstream
            .clone()
            .connect_timeout(self.connect_timeout)
            .keep_alive(self.keep_alive))
    }

    fn options(&self, identities: Identities) -> Options {
        Options {
            identities,
            host: match self.host {
                Host::Client => HostHeader::Client,
                Host::Upstream => HostHeader::Upstream,
            },
            answer_timeout: self.answer_timeout,
            drain: self.drain,
            max_connections: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
        }
    }

    /// With the secret of the file, of the environment, or with none.
    fn identities(&self) -> Result<Identities> {
        if let Some(path) = &self.secret_file {
            let secret = std::fs::read(path).map_err(|error| {
                Usage::new(
                    "secret_file",
                    format!(
                        "{} cannot be read ({error}): name the file of the secret",
                        path.display()
                    ),
                )
            })?;
            // A file ends with a line break, and a secret does not.
            return Ok(Identities::with_secret(secret.trim_ascii_end())?);
        }
        match std::env::var_os(SECRET) {
            Some(secret) => {
                use std::os::unix::ffi::OsStrExt as _;
                Ok(Identities::with_secret(secret.as_bytes())?)
            }
            None => Ok(Identities::new()),
        }
    }
}
