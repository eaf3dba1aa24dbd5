//! `turno inbox requeue`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno_api::inbox;

use super::failed::FailedItems;
use crate::context::Context;

/// Revive failed items
#[derive(Debug, Args)]
#[command(after_help = "\
They have all their attempts before them again.
An id that is not of a failed item of the queue is passed over.")]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    items: FailedItems,
}

pub(crate) async fn run(context: &Context, args: RequeueArgs) -> Result<ExitCode> {
    let requeued = args
        .items
        .decide(context, "reviving failed items", async |inbox, ids| {
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
