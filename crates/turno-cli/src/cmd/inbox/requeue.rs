//! `turno inbox requeue`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno_api::inbox;

use super::failed::FailedItems;
use crate::context::Context;

/// Requeue failed items
#[derive(Debug, Args)]
#[command(after_help = "\
Requeued items have all their attempts again.
Ids that are not of failed items of the queue are ignored.")]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    items: FailedItems,
}

pub(crate) async fn run(context: &Context, args: RequeueArgs) -> Result<ExitCode> {
    let requeued = args
        .items
        .decide(context, "requeuing failed items", async |inbox, ids| {
            inbox.requeue(ids).await
        })
        .await?;
    if context.output.is_json() {
        context.output.json(&inbox::Requeued { requeued })?;
    } else {
        context.output.line(&format!("requeued: {requeued}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
