//! `turno outbox stats`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::{Cell, Color};

use super::table::TableArgs;
use crate::context::Context;
use crate::duration::Shown;
use crate::output::{number, optional};

/// Show the number of events by state
#[derive(Debug, Args)]
#[command(after_help = "\
Of a table, only the rows that are not processed are counted, and at most 100,000 of them.")]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    table: TableArgs,
}

pub(crate) async fn run(context: &Context, args: StatsArgs) -> Result<ExitCode> {
    match args.table.table {
        Some(table) => of_table(context, &table).await?,
        None => of_outbox(context).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn of_outbox(context: &Context) -> Result<()> {
    let stats = context
        .read_store(async |turno| Ok(turno.outbox().stats().await?))
        .await?;
    if context.output.is_json() {
        return context.output.json(&stats);
    }
    if stats.total == 0 {
        return context.output.line("there are no events");
    }
    let mut header = vec!["TOTAL"];
    let mut row = vec![number(stats.total)];
    header.extend(STATES);
    row.extend([
        number(stats.pending),
        number(stats.scheduled),
        number(stats.processing),
        alarming(stats.dead),
        alarming(stats.blocked),
        optional(stats.oldest_pending.map(Shown)),
    ]);
    header.insert(4, "DISPATCHED");
    row.insert(4, number(stats.dispatched));
    parked(&mut header, &mut row, stats.parked_keys);
    context.output.table(&header, vec![row])
}

async fn of_table(context: &Context, table: &str) -> Result<()> {
    let stats = context
        .read_store(async |turno| Ok(turno.outbox_table(table).stats().await?))
        .await?;
    if context.output.is_json() {
        return context.output.json(&stats);
    }
    if stats.unprocessed == 0 {
        return context.output.line("all events are processed");
    }
    let mut header = vec!["UNPROCESSED"];
    let mut row = vec![match stats.more {
        true => Cell::new(format!("{} or more", stats.unprocessed)),
        false => number(stats.unprocessed),
    }];
    header.extend(STATES);
    row.extend([
        number(stats.pending),
        number(stats.scheduled),
        number(stats.processing),
        alarming(stats.dead),
        alarming(stats.blocked),
        optional(stats.oldest_pending.map(Shown)),
    ]);
    parked(&mut header, &mut row, stats.parked_keys);
    context.output.table(&header, vec![row])
}

/// Columns that the outbox and a table have in common.
const STATES: [&str; 6] = [
    "PENDING",
    "SCHEDULED",
    "PROCESSING",
    "DEAD",
    "BLOCKED",
    "OLDEST",
];

/// Adds the column of parked keys, if there are any.
fn parked(header: &mut Vec<&str>, row: &mut Vec<Cell>, keys: u64) {
    if keys > 0 {
        header.push("PARKED KEYS");
        row.push(alarming(keys));
    }
}

/// A count that should be zero. If it is not, an operator must look at it.
fn alarming(count: u64) -> Cell {
    let cell = number(count);
    if count > 0 { cell.fg(Color::Red) } else { cell }
}
