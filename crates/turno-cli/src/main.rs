//! The `turno` command, for operators and scripts.

mod answer_keys;
mod args;
mod bulk;
mod cmd;
mod config;
mod context;
mod duration;
mod fail;
mod listen;
mod logging;
mod name;
mod ndjson;
mod output;
mod payload;
mod progress;
mod redact;
mod remote;
mod secrets;
mod signals;
mod size;
#[cfg(feature = "otel")]
mod telemetry;
#[cfg(not(feature = "otel"))]
#[path = "no_telemetry.rs"]
mod telemetry;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::context::Context;

/// Exit code `EX_TEMPFAIL`: another holder has the lock, or there is nothing to do. Retry later.
const BUSY: u8 = 75;

fn main() -> ExitCode {
    if let Some(code) = cmd::hidden() {
        return code;
    }
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let output = cli.output();
    match run(cli) {
        Ok(code) => code,
        Err(error) => fail::report(&error, output),
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let verbose = cli.verbose;
    let (command, context) = Context::new(cli)?;
    if let Some(word) = command.needs_store() {
        context.expect_store(word)?;
    }
    let logging = logging::start(&command, verbose, &context)?;
    let mut runtime = match command {
        // These serve many clients at once.
        Command::Gate(_) | Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        // One thread: `turno run` and `turno once` must start their command from a thread that lives as long as they do.
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    let done = runtime.block_on(dispatch(command, &context));
    // A pending name resolution must not delay the end of the command.
    runtime.shutdown_background();
    logging.end();
    done
}

async fn dispatch(command: Command, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => cmd::serve::run(context, args).await,
        Command::Migrate(args) => cmd::migrate::run(context, args).await,
        Command::Lock(verb) => cmd::lock::run(context, verb).await,
        Command::Run(args) => cmd::run::run(context, args).await,
        Command::Once(args) => cmd::once::run(context, args).await,
        Command::Inbox(verb) => cmd::inbox::run(context, verb).await,
        Command::Outbox(verb) => cmd::outbox::run(context, verb).await,
        Command::History(args) => cmd::history::run(context, args).await,
        Command::Gate(args) => cmd::gate::run(context, args).await,
        Command::Adopt(args) => cmd::adopt::run(context, args).await,
        Command::Sweep(args) => cmd::sweep::run(context, args).await,
        Command::Token(verb) => cmd::token::run(context, verb).await,
        Command::Doctor => cmd::doctor::run(context).await,
        Command::Top(args) => cmd::top::run(context, args).await,
        Command::Demo(args) => cmd::demo::run(context, args).await,
        Command::Completions(args) => cmd::completions::run(context, args),
    }
}
