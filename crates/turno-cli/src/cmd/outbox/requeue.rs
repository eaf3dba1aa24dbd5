//! `turno outbox requeue`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno_api::inbox;
use uuid::Uuid;

use super::table::TableArgs;
use crate::cmd::operator::OperatorArgs;
use crate::context::Context;
use crate::progress;

/// Requeue dead and blocked events
#[derive(Debug, Args)]
#[command(after_help = "\
Requeued events have all their attempts again. Events parked behind them are requeued too, in order.
Ids that are not of dead or blocked events are ignored.")]
pub(crate) struct RequeueArgs {
    /// Ids, as `turno outbox list --state dead` shows them
    #[arg(value_name = "ID", required_unless_present = "all", value_parser = super::id)]
    id: Vec<Uuid>,

    /// All dead and blocked events
    #[arg(long, conflicts_with = "id")]
    all: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    operator: OperatorArgs,
}

pub(crate) async fn run(context: &Context, args: RequeueArgs) -> Result<ExitCode> {
    let which = (!args.all).then_some(args.id.as_slice());
    let spinner = progress::spinner(context.output, "requeuing dead events");
    let requeued = context
        .with_store(async |turno| {
            if let Some(table) = args.table.table {
                let table = args.operator.outbox_table(turno.outbox_table(table));
                return Ok(table.requeue(which).await?);
            }
            let outbox = args.operator.outbox(turno.outbox());
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
