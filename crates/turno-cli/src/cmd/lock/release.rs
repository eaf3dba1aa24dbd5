//! `turno lock release`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use turno::lock::ReleaseOutcome;

use super::lease::{LeaseArgs, tell_lost};
use crate::context::Context;

/// Release a lock
#[derive(Debug, Args)]
#[command(after_help = "\
If the owner has acquired the lock several times, this releases one hold.
Exits with 1 if the lease is lost.")]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    lease: LeaseArgs,
}

pub(crate) async fn run(context: &Context, args: ReleaseArgs) -> Result<ExitCode> {
    let id = args.lease.id()?;
    let outcome = context
        .with_store(async |turno| Ok(turno.lock(&id.resource).release(id.token).await?))
        .await?;
    let holds = match outcome {
        ReleaseOutcome::Released { holds } => holds,
        ReleaseOutcome::Lost => return tell_lost(context, &id),
    };
    if context.output.is_json() {
        context
            .output
            .json(&json!({"id": id, "resource": id.resource, "token": id.token, "holds": holds}))?;
    } else if holds == 0 {
        context
            .output
            .line(&format!("{} is released", id.resource))?;
    } else {
        context.output.line(&format!(
            "one hold of {} is released; left: {holds}",
            id.resource
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
