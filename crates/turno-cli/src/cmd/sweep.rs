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

/// Close expired leases, and delete old records
#[derive(Debug, Args)]
#[command(after_help = "\
Keeps the tables small. Locks and claims do not depend on it: expired ones are taken over anyway.
With --every, or with [cleanup] in turno.toml, it runs until it is stopped.")]
pub(crate) struct SweepArgs {
    /// Retention of unused resources; their fencing tokens never decrease [default: 1d]
    #[arg(long, env = "TURNO_PURGE_AFTER", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    purge_after: Option<Duration>,

    /// Retention of the history [default: 90d]
    #[arg(long, env = "TURNO_KEEP_HISTORY", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_history: Option<Duration>,

    /// Retention of completed items and dispatched events, with their keys and ids [default: 7d]
    #[arg(long, env = "TURNO_KEEP_COMPLETED", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_completed: Option<Duration>,

    /// Retention of failed items; their keys are kept like those of completed items [default: unlimited]
    #[arg(long, env = "TURNO_KEEP_FAILED", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_failed: Option<Duration>,

    /// Retention of archived events [default: 365d]
    #[arg(long, env = "TURNO_KEEP_ARCHIVE", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_archive: Option<Duration>,

    /// Retention of the events marked as processed; must exceed the redelivery time of your broker [default: 30d]
    #[arg(long, env = "TURNO_KEEP_SEEN", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_seen: Option<Duration>,

    /// Sweep repeatedly, with this pause
    #[arg(long, env = "TURNO_SWEEP_EVERY", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    every: Option<Duration>,

    /// Sweep once, even if turno.toml has [cleanup]
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
                &format!("the sweep failed, and will be retried: {error}"),
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
        "expired leases closed: {}   resources deleted: {}   dead waiters: {}   history entries deleted: {}   records of completed work deleted: {}   archived events deleted: {}   processed marks deleted: {}   answers deleted: {}   failed items deleted: {}",
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
