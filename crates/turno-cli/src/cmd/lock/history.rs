//! `turno lock history`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::{Cell, Color};
use turno::lock::{HistoryEntry, HistoryEvent, LockHistory};
use turno_client::wire;

use crate::context::Context;
use crate::output::{number, optional, page, time};

/// Show the audit trail, newest first; it begins with what is held now
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Of one resource; of all, if none is named
    resource: Option<String>,

    /// Only names that begin with this, such as PRESTAMO/
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "resource"
    )]
    prefix: String,

    /// At most so many, 1000 at the most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only entries before this id: the last of the page before
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
}

pub(crate) async fn run(context: &Context, args: HistoryArgs) -> Result<ExitCode> {
    let limit = page(args.limit);
    let ask = LockHistory {
        resource: args.resource,
        prefix: args.prefix,
        before: args.before,
        limit,
    };
    let entries = context
        .with_store(async |turno| Ok(turno.lock_history(ask).await?))
        .await?;
    if context.output.is_json() {
        let ended = entries.iter().filter(|entry| entry.id.is_some()).count();
        let last = entries.last().and_then(|entry| entry.id);
        context.output.json(&wire::History {
            next: last.filter(|_| ended >= limit as usize),
            history: entries,
        })?;
    } else if entries.is_empty() {
        context.output.line("nothing has happened yet")?;
    } else {
        let header = [
            "AT",
            "EVENT",
            "RESOURCE",
            "USER",
            "SERVICE",
            "DESCRIPTION",
            "TOKEN",
            "BY",
            "REASON",
            "ID",
        ];
        context
            .output
            .table(&header, entries.iter().map(row).collect())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &HistoryEntry) -> Vec<Cell> {
    let who = &entry.attribution;
    vec![
        Cell::new(time(entry.at)),
        event(entry.event),
        Cell::new(&entry.resource),
        optional(who.user.as_deref()),
        optional(who.service.as_deref()),
        optional(who.description.as_deref()),
        number(entry.token),
        optional(entry.actor.as_deref()),
        optional(entry.reason.as_deref()),
        optional(entry.id),
    ]
}

fn event(event: HistoryEvent) -> Cell {
    let cell = Cell::new(event);
    match event {
        HistoryEvent::Acquired => cell.fg(Color::Green),
        HistoryEvent::Released => cell,
        HistoryEvent::RenewedLate | HistoryEvent::Expired | HistoryEvent::TakenOver => {
            cell.fg(Color::Yellow)
        }
        HistoryEvent::Broken | HistoryEvent::Late => cell.fg(Color::Red),
    }
}
