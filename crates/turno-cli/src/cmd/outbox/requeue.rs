//! `turno outbox requeue`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno_api::inbox;
use uuid::Uuid;

use crate::cmd::by_hand::ByHand;
use crate::context::Context;
use crate::progress;

/// Revive dead and blocked events
#[derive(Debug, Args)]
#[command(after_help = "\
They have all their attempts before them again. What was parked behind one comes with it, in order.
An id that is not of a dead or blocked event is passed over.")]
pub(crate) struct RequeueArgs {
    /// Their ids, as `turno outbox list --state dead` shows them
    #[arg(value_name = "ID", required_unless_present = "all", value_parser = super::id)]
    id: Vec<Uuid>,

    /// Revive all of them
    #[arg(long, conflicts_with = "id")]
    all: bool,

    #[command(flatten)]
    by_hand: ByHand,
}

pub(crate) async fn run(context: &Context, args: RequeueArgs) -> Result<ExitCode> {
    let which = (!args.all).then_some(args.id.as_slice());
    let spinner = progress::spinner(context.output, "reviving dead events");
    let requeued = context
        .with_store(async |turno| {
            let outbox = args.by_hand.outbox(turno.outbox());
            Ok(outbox.requeue(which).await?)
        })
        .await;
    spinner.finish_and_clear();
    let requeued = requeued?;
    if context.output.is_json() {
        context.output.json(&inbox::Requeued { requeued })?;
    } else {
        context.output.line(&format!("requeued: {requeued}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
