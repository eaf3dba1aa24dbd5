//! `turno inbox requeue`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::inbox::ItemId;
use turno_client::wire;

use super::stats::expect_queue;
use crate::cmd::by_hand::ByHand;
use crate::context::Context;
use crate::progress;

/// Revive failed items
#[derive(Debug, Args)]
#[command(after_help = "\
They have all their attempts before them again.
An id that is not of a failed item of the queue is passed over.")]
pub(crate) struct RequeueArgs {
    /// Where they failed
    queue: String,

    /// Their numbers, as `turno inbox list --state failed` shows them
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        allow_negative_numbers = true
    )]
    id: Vec<i64>,

    /// Revive all of them
    #[arg(long, conflicts_with = "id")]
    all: bool,

    #[command(flatten)]
    by_hand: ByHand,
}

pub(crate) async fn run(context: &Context, args: RequeueArgs) -> Result<ExitCode> {
    let ids: Vec<ItemId> = args.id.into_iter().map(ItemId).collect();
    let which = (!args.all).then_some(ids.as_slice());
    let spinner = progress::spinner(context.output, "reviving failed items");
    let requeued = context
        .with_store(async |turno| {
            let inbox = args.by_hand.inbox(turno.inbox(&args.queue));
            let requeued = inbox.requeue(which).await?;
            if requeued == 0 {
                expect_queue(turno, &args.queue).await?;
            }
            Ok(requeued)
        })
        .await;
    spinner.finish_and_clear();
    let requeued = requeued?;
    if context.output.is_json() {
        context.output.json(&wire::Requeued { requeued })?;
    } else {
        context.output.line(&format!("requeued: {requeued}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
