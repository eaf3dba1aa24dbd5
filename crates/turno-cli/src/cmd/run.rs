//! `turno run`
//!
//! The lease is renewed in the background while the command runs. If the lease is lost or cannot be renewed, the command gets
//! TERM and then KILL before the lease can have expired.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno::lock::{Acquire, Lease, ReleaseOutcome};

use super::child::{Child, Prints, Reach, code_of, stopped_by};
use super::lock::ask::{AcquireResult, LockArgs, tell_busy};
use crate::context::Context;
use crate::signals::Signals;
use crate::{BUSY, fail};

/// Time between TERM and KILL if the lease is lost already.
const GRACE: Duration = Duration::from_millis(100);
/// A lease that is lost within this time counts as lost already.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Timeout for releasing a lease that could not be renewed.
const LATE_RELEASE: Duration = Duration::from_secs(2);

/// Run a command under a lock
#[derive(Debug, Args)]
#[command(after_help = "\
The lease is renewed while the command runs, and released when it ends. If the lease is lost or
cannot be renewed, the command gets TERM and then KILL, before the lease can have expired.
If turno run itself is killed, the command is killed too, but not the processes that it started.
The environment of the command has TURNO_RESOURCE, TURNO_FENCING_TOKEN, TURNO_LEASE and TURNO_OWNER.

Exits with the code of the command (128 + N if signal N ended it), with 75 if another owner holds
the lock, with 1 if the lease was lost, with 127 or 126 if the command was not found or cannot run.")]
pub(crate) struct RunArgs {
    /// Resource to lock, such as PRESTAMO/123
    #[arg(long = "lock", value_name = "RESOURCE")]
    resource: String,

    #[command(flatten)]
    lock: LockArgs,

    /// Command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<ExitCode> {
    let reach = Reach::here();
    let mut signals = Signals::listen(reach.signals())?;
    context
        .with(args.lock.settings(context), async |turno| {
            match args.lock.ask(turno, &args.resource, &mut signals).await? {
                AcquireResult::Answered(Acquire::Acquired(lease)) => {
                    under(context, lease, &args.command, reach, &mut signals).await
                }
                AcquireResult::Answered(Acquire::Busy(busy)) => {
                    tell_busy(context, &busy)?;
                    Ok(ExitCode::from(BUSY))
                }
                AcquireResult::Stopped(signal) => Ok(stopped_by(signal)),
            }
        })
        .await
}

async fn under(
    context: &Context,
    lease: Lease,
    command: &[OsString],
    reach: Reach,
    signals: &mut Signals,
) -> Result<ExitCode> {
    let renewal = lease.auto_renew();
    let variables = [
        ("TURNO_RESOURCE", lease.resource().to_owned()),
        ("TURNO_FENCING_TOKEN", lease.token().to_string()),
        ("TURNO_LEASE", lease.id().to_string()),
        ("TURNO_OWNER", lease.owner().to_owned()),
    ];
    let mut child = match Child::start(command, &variables, reach, Prints::AsWe) {
        Ok(child) => child,
        Err(error) => {
            lease.release().await?;
            return Err(error);
        }
    };
    let is_held = async || !lease.remaining().is_zero();
    let ended = child.watch(signals, lease.ending(), is_held).await?;
    if ended.is_none() {
        child.stop(gone(&lease)).await?;
    }
    drop(renewal);
    match ended {
        Some(status) => {
            let alone = give_back(context, lease).await;
            Ok(if status.success() && !alone {
                ExitCode::FAILURE
            } else {
                ExitCode::from(code_of(status))
            })
        }
        None => {
            let id = lease.id();
            // The store may be available again. Then the next holder need not wait for the expiry.
            let _ = tokio::time::timeout(LATE_RELEASE, lease.release()).await;
            let detail = format!(
                "the lease {id} was lost, could not be renewed, or reached its max-hold, so the command was stopped: \
                 check the store with `turno doctor` and the lock with `turno lock history {}`",
                id.resource
            );
            Err(fail::Lost(detail).into())
        }
    }
}

/// Resolves when the lease must be considered lost, which is before it can have expired.
async fn gone(lease: &Lease) {
    let left = lease.remaining();
    if tokio::time::timeout(AT_ONCE, lease.gone()).await.is_ok() {
        // Lost already: the command gets a moment to clean up, within the rest of the lease. An expired lease has no rest.
        tokio::time::sleep(if left.is_zero() {
            GRACE
        } else {
            left.min(GRACE)
        })
        .await;
    } else {
        lease.gone().await;
    }
}

/// Releases the lease. Returns whether the command held the lock all the time, as far as is known.
async fn give_back(context: &Context, lease: Lease) -> bool {
    let id = lease.id();
    match lease.release().await {
        Ok(ReleaseOutcome::Released { .. }) => true,
        Ok(ReleaseOutcome::Lost) => {
            let detail = format!(
                "the lease {id} was lost before the command ended, so another holder may have run at the same time: see `turno lock history {}`",
                id.resource
            );
            fail::warn(&detail, context.output);
            false
        }
        Err(error) => {
            fail::warn(
                &format!("the lease {id} was not released, and ends with its TTL: {error}"),
                context.output,
            );
            true
        }
    }
}
