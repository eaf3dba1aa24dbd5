//! `turno inbox stats`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::{Cell, Color};
use turno::inbox::QueueStats;
use turno_api::inbox;

use crate::context::Context;
use crate::duration::Shown;
use crate::output::{number, optional};

/// Show the number of items by state
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Queue [default: all]
    queue: Option<String>,

    /// Only queues with this prefix, such as payments/
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "queue"
    )]
    prefix: String,
}

pub(crate) async fn run(context: &Context, args: StatsArgs) -> Result<ExitCode> {
    let stats = context
        .read_store(async |turno| match &args.queue {
            Some(queue) => Ok(vec![turno.inbox(queue).stats().await?]),
            None => Ok(turno.inbox_stats(&args.prefix).await?),
        })
        .await?;
    match (&args.queue, stats.as_slice()) {
        (Some(_), [one]) if context.output.is_json() => context.output.json(one)?,
        (_, all) if context.output.is_json() => {
            let queues = all.to_vec();
            context.output.json(&inbox::Queues { queues })?;
        }
        (_, []) if args.prefix.is_empty() => context.output.line("there are no queues")?,
        (_, []) => {
            let none = format!("there are no queues with the prefix {}", args.prefix);
            context.output.line(&none)?;
        }
        (_, all) => show(context, all)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, stats: &[QueueStats]) -> Result<()> {
    let header = [
        "QUEUE",
        "TOTAL",
        "PENDING",
        "SCHEDULED",
        "PROCESSING",
        "COMPLETED",
        "FAILED",
        "OLDEST PENDING",
    ];
    context
        .output
        .table(&header, stats.iter().map(row).collect())
}

fn row(stats: &QueueStats) -> Vec<Cell> {
    let failed = number(stats.failed);
    vec![
        Cell::new(&stats.queue),
        number(stats.total),
        number(stats.pending),
        number(stats.scheduled),
        number(stats.processing),
        number(stats.completed),
        if stats.failed > 0 {
            failed.fg(Color::Red)
        } else {
            failed
        },
        optional(stats.oldest_pending.map(Shown)),
    ]
}
