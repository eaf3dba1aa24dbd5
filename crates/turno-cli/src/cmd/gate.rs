//! `turno gate`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use http::Method;
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::once::Identities;
use turno_server::gate::config::{Route, RoutesFile};
use turno_server::gate::{Counts, Gate, HostHeader, Options, Upstream};

use crate::answer_keys;
use crate::context::Context;
use crate::duration;
use crate::fail::{self, Usage};
use crate::output::{Output, number};
use crate::redact;
use crate::signals::{ENDING, Signals, exit_code};

/// Environment variable with the secret of identities, for installations without a secret file.
const SECRET: &str = "TURNO_ONCE_SECRET";
/// Number of connections to the store. Concurrent begins and completions share a call; this many calls run at once.
const CONNECTIONS: usize = 8;

/// Run a reverse proxy that applies once keys to the requests of a service
#[derive(Debug, Args)]
#[command(after_help = "\
The routes file lists the requests to which once keys apply; all other requests are forwarded
unchanged. Its format is in docs/gate.md, and examples/gate/routes.toml is an example. Start with
switch = \"shadow\": it counts duplicates, and changes nothing.
With a secret (16 bytes or more, in --secret-file or TURNO_ONCE_SECRET), readers of the store cannot
guess contents and keys. All gates of a service must use the same secret. Answers are encrypted with
the keys in TURNO_ANSWER_KEYS, or in the file that answer_keys_file in [once] of turno.toml names.
The gate supports HTTP/1.1 and HTTP/2 without TLS, and adds no authentication: put it between your
TLS terminator and the service.
INT and TERM stop it after the requests in flight are done; a second signal ends it at once.")]
pub(crate) struct GateArgs {
    /// URL of the service: http://HOST:PORT, or h2c://HOST:PORT for HTTP/2
    #[arg(
        long,
        env = "TURNO_UPSTREAM",
        hide_env_values = true,
        value_name = "URL",
        required_unless_present = "check"
    )]
    upstream: Option<Upstream>,

    /// Routes file
    #[arg(
        long,
        env = "TURNO_ROUTES",
        hide_env_values = true,
        value_name = "FILE"
    )]
    routes: PathBuf,

    /// Address to listen on
    #[arg(
        long,
        env = "TURNO_GATE_LISTEN",
        hide_env_values = true,
        value_name = "ADDR",
        default_value = "127.0.0.1:7118",
        value_parser = crate::listen::parse
    )]
    listen: SocketAddr,

    /// Address of /healthz, /readyz and /metrics [default: none]
    #[arg(
        long,
        env = "TURNO_GATE_ADMIN_LISTEN",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    admin_listen: Option<SocketAddr>,

    /// File with the secret of the identities
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Host header of requests to the service: from the client, or of the upstream
    #[arg(long, value_enum, value_name = "WHOSE", default_value = "client")]
    host: Host,

    /// Maximum time until the service begins its response
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::above_zero, allow_hyphen_values = true)]
    answer_timeout: Duration,

    /// Maximum time without data in a request body; under a policy, body_timeout limits the whole body
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::above_zero, allow_hyphen_values = true)]
    body_timeout: Duration,

    /// Maximum time without progress of a streamed response: nothing sent by the service or read by the client
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::above_zero, allow_hyphen_values = true)]
    stream_timeout: Duration,

    /// Timeout for connecting to the service
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::above_zero, allow_hyphen_values = true)]
    connect_timeout: Duration,

    /// Maximum idle time of a reused connection; keep it below the idle timeout of the service
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_alive: Duration,

    /// Maximum time for requests in flight to end at shutdown
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse, allow_hyphen_values = true)]
    drain: Duration,

    /// Maximum number of client connections; further clients wait
    #[arg(long, value_name = "NUMBER", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,

    /// Only check the routes file, and print what each route does
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Host {
    Client,
    Upstream,
}

pub(crate) async fn run(context: &Context, args: GateArgs) -> Result<ExitCode> {
    let routes = read_routes(&args.routes)?;
    if args.check {
        explain(&routes, context.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let identities = identities(args.secret_file.as_deref())?;
    let mut settings = context.settings.clone();
    settings.connections = CONNECTIONS;
    settings.answer_keys = answer_keys::read(&context.once)?;
    let counts = context
        .with(settings, async |turno| {
            serve(context, turno, &args, &routes, identities).await
        })
        .await?;
    print_counts(context, counts)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads and parses a routes file.
pub(crate) fn read_routes(path: &Path) -> Result<RoutesFile, Usage> {
    let file = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let detail = format!("{file} cannot be read ({error}): give the routes file with --routes");
        Usage::new("routes", detail)
    })?;
    RoutesFile::parse(&text).map_err(|error| Usage::new("routes", format!("{file}, {error}")))
}

/// Prints what each route does.
fn explain(file: &RoutesFile, output: Output) -> Result<()> {
    if output.is_json() {
        let routes: Vec<_> = file.list().iter().map(Route::to_json).collect();
        return output.json(&json!({ "routes": routes }));
    }
    for (number, route) in file.list().iter().enumerate() {
        if number > 0 {
            output.line("")?;
        }
        let methods: Vec<&str> = route.methods().iter().map(Method::as_str).collect();
        output.line(&format!("{} {}", methods.join(", "), route.path()))?;
        let properties = route.describe().into_iter();
        let properties: Vec<_> = properties
            .map(|(label, text)| (format!("  {label}"), text))
            .collect();
        output.pairs(&properties)?;
    }
    Ok(())
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
    let listener = listen("listen", "--listen", args.listen).await?;
    let admin = match args.admin_listen {
        Some(address) => Some(listen("admin_listen", "--admin-listen", address).await?),
        None => None,
    };
    let admin_address = admin.as_ref().map(TcpListener::local_addr).transpose()?;
    announce(context, listener.local_addr()?, admin_address, &upstream)?;
    let stop = CancellationToken::new();
    // The admin endpoints report the shutdown until the gate has ended.
    let ended = CancellationToken::new();
    let work = async {
        let counts = gate.run(listener, stop.clone().cancelled_owned()).await;
        ended.cancel();
        counts
    };
    let administered = async {
        if let Some(admin) = admin
            && let Err(error) = gate
                .run_admin(admin, stop.clone(), ended.clone().cancelled_owned())
                .await
        {
            tracing::error!(%error, "/healthz, /readyz and /metrics are not available");
        }
    };
    let both = async { tokio::join!(work, administered).0 };
    let mut work = std::pin::pin!(both);
    loop {
        tokio::select! {
            counts = &mut work => return Ok(counts),
            signal = signals.next() => stopped(signal, &stop),
        }
    }
}

async fn listen(field: &'static str, option: &str, address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Usage::new(
            field,
            format!("cannot listen on {address} ({error}): give another address with {option}"),
        )
    })?;
    Ok(listener)
}

/// Prints the addresses, for people and for programs that start the gate.
fn announce(
    context: &Context,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    upstream: &Upstream,
) -> Result<()> {
    tracing::info!(
        store = redact::url(&context.store),
        upstream = %upstream.authority(),
        "the gate has started"
    );
    if !address.ip().is_loopback() {
        fail::warn(
            "the gate is reachable from other machines, and adds no authentication and no TLS: allow only clients that may use the service to reach it",
            context.output,
        );
    }
    if context.output.is_json() {
        return context.output.json(&json!({
            "listening": address.to_string(),
            "admin": admin.map(|admin| admin.to_string()),
            "upstream": upstream.authority().as_str(),
        }));
    }
    if let Some(admin) = admin {
        context
            .output
            .line(&format!("health and metrics on http://{admin}"))?;
    }
    context.output.line(&format!(
        "listening on http://{address} for {}",
        upstream.authority()
    ))
}

/// The first signal starts a graceful shutdown, the second ends the process at once.
fn stopped(signal: Signal, stop: &CancellationToken) {
    if stop.is_cancelled() {
        // Does not even wait for the store: requests in flight become unknown when their lease expires.
        std::process::exit(exit_code(signal.as_raw()).into());
    }
    tracing::info!(
        "shutting down: waiting for requests in flight. A second signal ends the process at once"
    );
    stop.cancel();
}

/// Prints the counts.
fn print_counts(context: &Context, counts: Counts) -> Result<()> {
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
            return Err(
                Usage::new("upstream", "give the URL of the service with --upstream").into(),
            );
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
            body_timeout: self.body_timeout,
            stream_timeout: self.stream_timeout,
            drain: self.drain,
            max_connections: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
        }
    }
}

/// Returns identities with the secret of the file or of the environment, or without one.
pub(crate) fn identities(secret_file: Option<&Path>) -> Result<Identities> {
    if let Some(path) = secret_file {
        let secret = std::fs::read(path).map_err(|error| {
            Usage::new(
                "secret_file",
                format!(
                    "{} cannot be read ({error}): give the file with the secret",
                    path.display()
                ),
            )
        })?;
        // The line break at the end of a file is not part of the secret.
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
