//! `turno inbox discard`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno_api::outbox;

use super::failed::FailedItems;
use crate::context::Context;

/// Discard failed items: delete them
#[derive(Debug, Args)]
#[command(after_help = "\
Payloads and errors are deleted. Unique keys are kept as long as those of completed items, so that a
repeated push is still a duplicate.
Ids that are not of failed items of the queue are ignored.")]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    items: FailedItems,
}

pub(crate) async fn run(context: &Context, args: DiscardArgs) -> Result<ExitCode> {
    let discarded = args
        .items
        .decide(context, "discarding failed items", async |inbox, ids| {
            inbox.discard(ids).await
        })
        .await?;
    if context.output.is_json() {
        context.output.json(&outbox::Discarded { discarded })?;
    } else {
        context.output.line(&format!("discarded: {discarded}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
