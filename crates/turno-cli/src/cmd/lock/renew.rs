//! `turno lock renew`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use turno::Turno;
use turno::lock::{LeaseId, RenewOutcome};
use turno_api::lock;

use super::lease::{LeaseArgs, tell_lost};
use crate::context::Context;
use crate::duration::{self, Shown};
use crate::output::time;

/// Renew a lease
#[derive(Debug, Args)]
#[command(after_help = "\
A renewal never shortens a lease. Exits with 1 if the lease is lost.")]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    lease: LeaseArgs,

    /// TTL of the lease, counted from now [default: 30s]
    #[arg(long, env = "TURNO_TTL", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    ttl: Option<Duration>,

    /// Maximum TTL that is accepted [default: 24h]
    #[arg(long, env = "TURNO_MAX_TTL", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    max_ttl: Option<Duration>,
}

pub(crate) async fn run(context: &Context, args: RenewArgs) -> Result<ExitCode> {
    let id = args.lease.id()?;
    let mut settings = context.settings.clone();
    settings.max_ttl = args.max_ttl.unwrap_or(settings.max_ttl);
    let ttl = args.ttl.unwrap_or(settings.ttl);
    context
        .with(settings, async |turno| {
            let outcome = turno.lock(&id.resource).ttl(ttl).renew(id.token).await?;
            let RenewOutcome::Renewed {
                expires_at,
                remaining,
            } = outcome
            else {
                return tell_lost(context, &id);
            };
            if context.output.is_json() {
                let lease = lease(turno, &id, expires_at, remaining).await?;
                context.output.json(&lease)?;
            } else {
                context.output.pairs(&[
                    ("lease", Some(id.to_string())),
                    (
                        "expires",
                        Some(format!("in {} ({})", Shown(remaining), time(expires_at))),
                    ),
                ])?;
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
}

/// Returns the lease as acquire printed it, with its new expiry. A renewal does not return the owner; the store does.
async fn lease(
    turno: &Turno,
    id: &LeaseId,
    expires_at: Timestamp,
    remaining: Duration,
) -> Result<lock::RenewedLease> {
    let status = turno.lock(&id.resource).status().await?;
    let mut holders = status.holders.into_iter();
    let holder = holders.find(|holder| holder.token == id.token);
    Ok(lock::RenewedLease {
        id: id.clone(),
        resource: id.resource.clone(),
        token: id.token,
        holds: holder.as_ref().map(|holder| holder.holds),
        acquired_at: holder.as_ref().map(|holder| holder.acquired_at),
        owner: holder.map(|holder| holder.owner),
        expires_at,
        remaining,
    })
}
