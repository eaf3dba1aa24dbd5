//! `turno inbox give-back`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::settle::{ClaimsArgs, tell};
use crate::context::Context;

/// Give back items that were not processed
#[derive(Debug, Args)]
#[command(after_help = "\
They can be claimed at once, and no attempt is counted. Exits with 1 if a claim is stale.")]
pub(crate) struct GiveBackArgs {
    #[command(flatten)]
    claims: ClaimsArgs,
}

pub(crate) async fn run(context: &Context, args: GiveBackArgs) -> Result<ExitCode> {
    let claims = &args.claims;
    let settled = claims.settle(context, async |inbox| inbox.give_back(&claims.claims).await);
    let settled = settled.await?;
    tell(context, "given back", &settled)
}
