//! `turno serve`

mod options;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turno::{Settings, Turno};
use turno_server::serve::Server;

pub(crate) use self::options::ServeArgs;
use crate::answer_keys;
use crate::context::Context;
use crate::fail::Usage;
use crate::redact;
use crate::signals::{ENDING, Signals, exit_code};

pub(crate) async fn run(context: &Context, args: ServeArgs) -> Result<ExitCode> {
    let settings = Settings {
        connections: args.connections(&context.serve),
        answer_keys: answer_keys::read(&context.once)?,
        ..context.settings.clone()
    };
    context
        .with(settings, async |turno| serve(context, turno, &args).await)
        .await?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(context: &Context, turno: &Turno, args: &ServeArgs) -> Result<()> {
    let address = args.listen(&context.serve)?;
    let server = Server::new(turno.clone(), args.options(context)?);
    let mut signals = Signals::listen(&ENDING)?;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Usage::new(
            "listen",
            format!("{address} cannot be listened on ({error}): name another address with --listen"),
        )
    })?;
    announce(context, listener.local_addr()?)?;
    let stop = CancellationToken::new();
    let mut work = std::pin::pin!(server.serve(listener, stop.clone()));
    loop {
        tokio::select! {
            () = &mut work => return Ok(()),
            signal = signals.next() => stopped(signal, &stop),
        }
    }
}

/// Where it listens, for people and for programs that start it.
fn announce(context: &Context, address: SocketAddr) -> Result<()> {
    tracing::info!(store = redact::url(&context.store), "the server is up");
    let url = format!("http://{address}");
    if context.output.is_json() {
        return context
            .output
            .json(&json!({"listening": address.to_string(), "url": url}));
    }
    context.output.line(&format!("listening on {url}"))
}

/// The first signal is a request, the second an order.
fn stopped(signal: Signal, stop: &CancellationToken) {
    if stop.is_cancelled() {
        // Not even the store is waited for: what is in flight is repeated by whoever asked, with the same request.
        std::process::exit(exit_code(signal.as_raw()).into());
    }
    tracing::info!(
        "told to stop; what is in flight is answered first. Once more, and it ends at once"
    );
    stop.cancel();
}
