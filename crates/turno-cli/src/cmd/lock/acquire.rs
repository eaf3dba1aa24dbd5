//! `turno lock acquire`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::lock::{Acquire, Lease};
use turno_api::lock;

use super::ask::{AcquireResult, LockArgs, tell_busy};
use crate::BUSY;
use crate::context::Context;
use crate::duration::Shown;
use crate::output::time;
use crate::signals::{ENDING, Signals, exit_code};

/// Acquire a lock, and keep it until it is released or expires
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the lease, with the id for `turno lock release`.
Exits with 75 if another owner holds the lock.")]
pub(crate) struct AcquireArgs {
    /// Resource to lock, such as PRESTAMO/123
    resource: String,

    #[command(flatten)]
    lock: LockArgs,
}

pub(crate) async fn run(context: &Context, args: AcquireArgs) -> Result<ExitCode> {
    let settings = args.lock.settings(context);
    let mut signals = Signals::listen(&ENDING)?;
    context
        .with(settings, async |turno| {
            match args.lock.ask(turno, &args.resource, &mut signals).await? {
                AcquireResult::Answered(Acquire::Acquired(lease)) => {
                    let printed = print(context, &lease);
                    // The lease outlives this process, unless its id could not be printed.
                    match printed {
                        Ok(()) => drop(lease.detach()),
                        Err(error) => {
                            lease.release().await?;
                            return Err(error);
                        }
                    }
                    Ok(ExitCode::SUCCESS)
                }
                AcquireResult::Answered(Acquire::Busy(busy)) => {
                    tell_busy(context, &busy)?;
                    Ok(ExitCode::from(BUSY))
                }
                AcquireResult::Stopped(signal) => Ok(ExitCode::from(exit_code(signal.as_raw()))),
            }
        })
        .await
}

fn print(context: &Context, lease: &Lease) -> Result<()> {
    let grant = lease.grant();
    if context.output.is_json() {
        return context.output.json(&lock::Lease::from(grant));
    }
    context.output.pairs(&[
        ("lease", Some(lease.id().to_string())),
        ("token", Some(grant.token.to_string())),
        ("owner", Some(grant.owner.clone())),
        ("holds", grant.reentered.then(|| grant.holds.to_string())),
        (
            "expires",
            Some(format!(
                "in {} ({})",
                Shown(grant.remaining),
                time(grant.expires_at)
            )),
        ),
    ])
}
