//! `turno inbox discard`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno_api::outbox;

use super::failed::FailedItems;
use crate::context::Context;

/// Delete failed items for good
#[derive(Debug, Args)]
#[command(after_help = "\
Their payloads and errors are deleted. Their keys stay known for as long as those of completed
items, so that a repeated push is still a duplicate.
An id that is not of a failed item of the queue is passed over.")]
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
