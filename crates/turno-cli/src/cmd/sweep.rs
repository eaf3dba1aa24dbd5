//! `turno sweep`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno::Turno;
use turno::lock::{Sweep, Swept};

use crate::config::Cleanup;
use crate::context::Context;
use crate::signals::{ENDING, Signals};
use crate::{duration, fail};

/// Close what has expired and forget what is old
#[derive(Debug, Args)]
#[command(after_help = "\
It keeps the tables small. No lock or claim depends on it: an expired one is taken over anyway.
With --every, or with [cleanup] in turno.toml, it goes on until it is stopped.")]
pub(crate) struct SweepArgs {
    /// Forget resources unused for this long; their tokens never go back [default: 1d]
    #[arg(long, env = "TURNO_PURGE_AFTER", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    purge_after: Option<Duration>,

    /// Forget history older than this [default: 90d]
    #[arg(long, env = "TURNO_KEEP_HISTORY", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_history: Option<Duration>,

    /// Forget completed items and dispatched events, and their keys and ids, after this [default: 7d]
    #[arg(long, env = "TURNO_KEEP_COMPLETED", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_completed: Option<Duration>,

    /// Delete failed items after this; their keys stay known as those of completed items do [default: never]
    #[arg(long, env = "TURNO_KEEP_FAILED", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_failed: Option<Duration>,

    /// Forget archived events after this [default: 365d]
    #[arg(long, env = "TURNO_KEEP_ARCHIVE", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_archive: Option<Duration>,

    /// Forget what consumers have seen after this; longer than any broker delivers again [default: 30d]
    #[arg(long, env = "TURNO_KEEP_SEEN", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_seen: Option<Duration>,

    /// Sweep again and again, with this pause between
    #[arg(long, env = "TURNO_SWEEP_EVERY", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    every: Option<Duration>,

    /// Sweep once, whatever turno.toml says
    #[arg(long, conflicts_with = "every")]
    once: bool,
}

pub(crate) async fn run(context: &Context, args: SweepArgs) -> Result<ExitCode> {
    let file = context.cleanup.as_ref();
    let ask = ask(&args, file);
    let configured = file.filter(|cleanup| cleanup.enabled && !args.once);
    let every = args.every.or(configured.map(Cleanup::interval));
    context
        .with_store(async |turno| match every {
            None => print(context, turno.sweep(&ask).await?),
            Some(every) => again_and_again(context, turno, &ask, every).await,
        })
        .await?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the retention times: options over the file over the defaults.
fn ask(args: &SweepArgs, file: Option<&Cleanup>) -> Sweep {
    let file = file.map(Cleanup::sweep).unwrap_or_default();
    Sweep {
        purge_after: args.purge_after.unwrap_or(file.purge_after),
        keep_history: args.keep_history.unwrap_or(file.keep_history),
        keep_completed: args.keep_completed.unwrap_or(file.keep_completed),
        keep_failed: args.keep_failed.or(file.keep_failed),
        keep_archive: args.keep_archive.unwrap_or(file.keep_archive),
        keep_seen: args.keep_seen.unwrap_or(file.keep_seen),
        ..file
    }
}

/// Sweeps until a signal comes. A failed sweep is retried, because nothing depends on it.
async fn again_and_again(
    context: &Context,
    turno: &Turno,
    ask: &Sweep,
    every: Duration,
) -> Result<()> {
    let mut signals = Signals::listen(&ENDING)?;
    loop {
        let swept = tokio::select! {
            swept = turno.sweep(ask) => swept,
            _ = signals.next() => return Ok(()),
        };
        match swept {
            Ok(swept) => print(context, swept)?,
            Err(error) => fail::warn(
                &format!("the sweep failed, and is tried again: {error}"),
                context.output,
            ),
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = signals.next() => return Ok(()),
        }
    }
}

fn print(context: &Context, swept: Swept) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(&swept);
    }
    context.output.line(&format!(
        "expired leases closed: {}   resources forgotten: {}   dead waiters: {}   history entries forgotten: {}   records of completed work forgotten: {}   archived events forgotten: {}   seen events forgotten: {}   answers forgotten: {}   failed items deleted: {}",
        swept.expired,
        swept.purged,
        swept.waiters,
        swept.history,
        swept.completed,
        swept.archived,
        swept.seen,
        swept.once,
        swept.failed
    ))
}
