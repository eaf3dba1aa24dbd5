//! `turno inbox reset`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno_api::inbox;

use crate::cmd::operator::OperatorArgs;
use crate::context::Context;
use crate::{duration, progress};

/// Reset stuck items: take them from their workers
#[derive(Debug, Args)]
#[command(after_help = "\
For a worker that hangs and still extends its claims. The claims of a dead worker expire.
The claims become stale, and other workers can claim the items.")]
pub(crate) struct ResetArgs {
    /// Queue
    queue: String,

    /// Only items that were claimed longer ago than this
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration::parse, allow_hyphen_values = true)]
    older_than: Duration,

    #[command(flatten)]
    operator: OperatorArgs,
}

pub(crate) async fn run(context: &Context, args: ResetArgs) -> Result<ExitCode> {
    let spinner = progress::spinner(context.output, "resetting stuck items");
    let reset = context
        .with_store(async |turno| {
            let inbox = args.operator.inbox(turno.inbox(&args.queue));
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
