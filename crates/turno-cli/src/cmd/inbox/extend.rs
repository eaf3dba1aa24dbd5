//! `turno inbox extend`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::settle::{ClaimsArgs, tell};
use crate::context::Context;
use crate::duration;

/// Extend claims
#[derive(Debug, Args)]
#[command(after_help = "\
This never shortens a claim. Items that were claimed together are extended together.
Exits with 1 if a claim is stale.")]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    claims: ClaimsArgs,

    /// Lease of the claims, counted from now [default: 30s]
    #[arg(long, env = "TURNO_LEASE", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    lease: Option<Duration>,
}

pub(crate) async fn run(context: &Context, args: ExtendArgs) -> Result<ExitCode> {
    let lease = args.lease.unwrap_or(context.inbox_lease);
    let claims = &args.claims;
    let settled = claims.settle(context, async |inbox| {
        inbox.extend(&claims.claims, lease).await
    });
    let settled = settled.await?;
    tell(context, "extended", &settled)
}
