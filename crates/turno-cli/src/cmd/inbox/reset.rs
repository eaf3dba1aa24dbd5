//! `turno inbox reset`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno_api::inbox;

use crate::cmd::by_hand::ByHand;
use crate::context::Context;
use crate::{duration, progress};

/// Take stuck items away from their workers
#[derive(Debug, Args)]
#[command(after_help = "\
For a worker that hangs and keeps its claims alive; one that has died needs no help.
The claims are stale from then on, and the items claimable.")]
pub(crate) struct ResetArgs {
    /// Where they are
    queue: String,

    /// Only those that were claimed this long ago
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration::parse, allow_hyphen_values = true)]
    older_than: Duration,

    #[command(flatten)]
    by_hand: ByHand,
}

pub(crate) async fn run(context: &Context, args: ResetArgs) -> Result<ExitCode> {
    let spinner = progress::spinner(context.output, "taking items away from their workers");
    let reset = context
        .with_store(async |turno| {
            let inbox = args.by_hand.inbox(turno.inbox(&args.queue));
            let reset = inbox.reset(args.older_than).await?;
            if reset == 0 {
                // An error if there is no such queue.
                inbox.stats().await?;
            }
            Ok(reset)
        })
        .await;
    spinner.finish_and_clear();
    let reset = reset?;
    if context.output.is_json() {
        context.output.json(&inbox::ResetResponse { reset })?;
    } else {
        context.output.line(&format!("reset: {reset}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
