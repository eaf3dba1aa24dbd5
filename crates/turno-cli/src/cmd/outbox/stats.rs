//! `turno outbox stats`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::{Cell, Color};
use turno::outbox::OutboxStats;

use super::table::{EventSource, TableArgs};
use crate::context::Context;
use crate::duration::Shown;
use crate::output::{number, optional};

/// Show the number of events by state
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    table: TableArgs,
}

pub(crate) async fn run(context: &Context, args: StatsArgs) -> Result<ExitCode> {
    let table = args.table.table;
    let stats = context
        .read_store(async |turno| Ok(EventSource::new(turno, table.clone()).stats().await?))
        .await?;
    if context.output.is_json() {
        context.output.json(&stats)?;
    } else if stats.total == 0 {
        context.output.line("there are no events")?;
    } else {
        show(context, &stats)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, stats: &OutboxStats) -> Result<()> {
    let mut header = vec![
        "TOTAL",
        "PENDING",
        "SCHEDULED",
        "PROCESSING",
        "DISPATCHED",
        "DEAD",
        "BLOCKED",
        "OLDEST",
    ];
    let mut row = vec![
        number(stats.total),
        number(stats.pending),
        number(stats.scheduled),
        number(stats.processing),
        number(stats.dispatched),
        alarming(stats.dead),
        alarming(stats.blocked),
        optional(stats.oldest_pending.map(Shown)),
    ];
    if stats.parked_keys > 0 {
        header.push("PARKED KEYS");
        row.push(alarming(stats.parked_keys));
    }
    context.output.table(&header, vec![row])
}

/// A count that should be zero. If it is not, an operator must look at it.
fn alarming(count: u64) -> Cell {
    let cell = number(count);
    if count > 0 { cell.fg(Color::Red) } else { cell }
}
