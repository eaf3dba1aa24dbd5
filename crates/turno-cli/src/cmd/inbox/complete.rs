//! `turno inbox complete`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::settle::{ClaimsArgs, tell};
use crate::context::Context;

/// Complete items
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 if a claim is stale: another worker may process the item again.")]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    claims: ClaimsArgs,
}

pub(crate) async fn run(context: &Context, args: CompleteArgs) -> Result<ExitCode> {
    let claims = &args.claims;
    let settled = claims.settle(context, async |inbox| inbox.complete(&claims.claims).await);
    let settled = settled.await?;
    tell(context, "completed", &settled)
}
