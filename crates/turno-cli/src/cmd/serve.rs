//! `turno serve`

mod options;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno_server::{CurrentAdmission, Server};

pub(crate) use self::options::ServeArgs;
use crate::answer_keys;
use crate::context::Context;
use crate::fail::Usage;
use crate::redact;
use crate::signals::{ENDING, Signals, exit_code};

pub(crate) async fn run(context: &Context, args: ServeArgs) -> Result<ExitCode> {
    let mut settings = context.settings.clone();
    settings.connections = args.connections(&context.serve);
    settings.answer_keys = answer_keys::read(&context.once)?;
    context
        .with(settings, async |turno| serve(context, turno, &args).await)
        .await?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(context: &Context, turno: &Turno, args: &ServeArgs) -> Result<()> {
    let address = args.listen(&context.serve)?;
    let options = args.options(context, turno)?;
    for schedule in &options.schedules {
        // Report an invalid cron pattern now, while the operator is watching.
        schedule.tick().await?;
    }
    let has_certificate = options.tls.is_some();
    let server = Server::new(turno.clone(), options);
    let admission = server.check(address).await.map_err(or_insecure)?;
    let mut signals = Signals::listen(&ENDING)?;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Usage::new(
            "listen",
            format!("cannot listen on {address} ({error}): give another address with --listen"),
        )
    })?;
    let scheme = if has_certificate { "https" } else { "http" };
    announce(context, scheme, listener.local_addr()?, admission)?;
    let stop = CancellationToken::new();
    let mut work = std::pin::pin!(server.run(listener, stop.clone().cancelled_owned()));
    loop {
        tokio::select! {
            done = &mut work => return Ok(done?),
            signal = signals.next() => match signal {
                // Service managers send HUP to reload. Without a certificate, HUP means that the terminal was closed.
                Signal::HUP if has_certificate => reload(&server).await,
                _ => stopped(signal, &stop),
            }
        }
    }
}

/// Adds the option `--insecure` to the library's error message.
fn or_insecure(error: turno::Error) -> anyhow::Error {
    match error.field() {
        Some("listen") => {
            let detail = format!("{error}, or admit all callers without a token with --insecure");
            Usage::new("listen", detail).into()
        }
        _ => error.into(),
    }
}

/// Prints the address and which callers are admitted, for people and for programs that start the server.
fn announce(
    context: &Context,
    scheme: &str,
    address: SocketAddr,
    admission: CurrentAdmission,
) -> Result<()> {
    let output = context.output;
    tracing::info!(
        store = redact::url(&context.store),
        "the server has started"
    );
    let (word, warning) = match admission {
        CurrentAdmission::Token => ("tokens", None),
        CurrentAdmission::Local => (
            "local",
            Some(
                "no access token was ever created: every caller on this machine has full access. \
                 Create one with `turno token create NAME --role admin` to require tokens",
            ),
        ),
        CurrentAdmission::All => (
            "all",
            Some(
                "--insecure: every caller that can reach this address has full access, without a token",
            ),
        ),
    };
    if let Some(warning) = warning {
        // In the log, so that it has the log's format and place.
        tracing::warn!("{warning}");
    }
    let url = format!("{scheme}://{address}");
    if output.is_json() {
        return output.json(&json!({
            "listening": address.to_string(),
            "url": url,
            "open_to": word,
        }));
    }
    output.line(&format!("listening on {url}"))
}

async fn reload(server: &Server) {
    match server.reload().await {
        Ok(()) => tracing::info!("the certificate was reloaded"),
        Err(error) => {
            tracing::error!(%error, "the new certificate is invalid; the previous one stays in use");
        }
    }
}

/// The first signal starts a graceful shutdown, the second ends the process at once.
fn stopped(signal: Signal, stop: &CancellationToken) {
    if stop.is_cancelled() {
        // Does not even wait for the store: clients repeat their requests in flight with the same request id.
        std::process::exit(exit_code(signal.as_raw()).into());
    }
    tracing::info!(
        "shutting down: waiting for requests in flight. A second signal ends the process at once"
    );
    stop.cancel();
}
