//! `turno history`, and `turno lock history`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use comfy_table::{Cell, Color};
use turno::history::{History, HistoryEntry, HistoryEvent, Part};
use turno_api::history;

use crate::context::Context;
use crate::output::{number, optional, page, time};

/// Show the history of locks and operator actions, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
It begins with the held locks. Operator actions are break, requeue, reset, discard, forget, resolve,
and changes of settings by the owner of a database.
BY is the user, and COUNT the number of items or events. Entries of the outbox have no name.")]
pub(crate) struct HistoryArgs {
    /// Resource, queue or once key [default: all]
    resource: Option<String>,

    /// Only this component: lock, inbox, outbox, once or setting
    #[arg(long, value_name = "PART", hide_possible_values = true, value_parser = PossibleValuesParser::new(Part::ALL.map(Part::as_str)).try_map(|word| word.parse::<Part>()))]
    part: Option<Part>,

    #[command(flatten)]
    page: PageArgs,
}

/// Which entries.
#[derive(Debug, Args)]
pub(super) struct PageArgs {
    /// Only names with this prefix, such as PRESTAMO/
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "resource"
    )]
    prefix: String,

    /// Maximum number of entries, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only entries before this id: the last id of the previous page
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
}

impl PageArgs {
    /// Returns the query of a component, or of all.
    pub(super) fn of(self, part: Option<Part>, resource: Option<String>) -> History {
        History {
            part,
            resource,
            prefix: self.prefix,
            before: self.before,
            limit: page(self.limit),
        }
    }
}

pub(crate) async fn run(context: &Context, args: HistoryArgs) -> Result<ExitCode> {
    show(context, args.page.of(args.part, args.resource)).await
}

/// Prints a page of the history.
pub(super) async fn show(context: &Context, ask: History) -> Result<ExitCode> {
    let limit = ask.limit;
    let only_locks = ask.part == Some(Part::Lock);
    let entries = context
        .read_store(async |turno| Ok(turno.history(ask).await?))
        .await?;
    if context.output.is_json() {
        let ended = entries.iter().filter(|entry| entry.id.is_some()).count();
        let last = entries.last().and_then(|entry| entry.id);
        context.output.json(&history::HistoryPage {
            next: last.filter(|_| ended >= limit as usize),
            history: entries,
        })?;
    } else if entries.is_empty() {
        context.output.line("the history is empty")?;
    } else {
        let columns: Vec<_> = COLUMNS
            .iter()
            .filter(|column| !only_locks || column.locks)
            .collect();
        let header: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let row = |entry| columns.iter().map(|column| (column.cell)(entry)).collect();
        let rows = entries.iter().map(row).collect();
        context.output.table(&header, rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A column of the table, and whether it applies to locks.
struct Column {
    name: &'static str,
    locks: bool,
    cell: fn(&HistoryEntry) -> Cell,
}

const fn column(name: &'static str, cell: fn(&HistoryEntry) -> Cell) -> Column {
    Column {
        name,
        locks: true,
        cell,
    }
}

const COLUMNS: [Column; 12] = [
    column("AT", |entry| Cell::new(time(entry.at))),
    Column {
        locks: false,
        ..column("PART", |entry| Cell::new(entry.part))
    },
    column("EVENT", |entry| event(entry.event)),
    column("RESOURCE", |entry| {
        optional(Some(&entry.resource).filter(|name| !name.is_empty()))
    }),
    Column {
        locks: false,
        ..column("COUNT", |entry| maybe(entry.count))
    },
    column("USER", |entry| optional(entry.attribution.user.as_deref())),
    column("SERVICE", |entry| {
        optional(entry.attribution.service.as_deref())
    }),
    column("DESCRIPTION", |entry| {
        optional(entry.attribution.description.as_deref())
    }),
    column("TOKEN", |entry| maybe(entry.token)),
    column("BY", |entry| optional(entry.actor.as_deref())),
    column("REASON", |entry| optional(entry.reason.as_deref())),
    column("ID", |entry| optional(entry.id)),
];

fn maybe(value: Option<impl std::fmt::Display>) -> Cell {
    value.map_or_else(|| optional(None::<&str>), number)
}

fn event(event: HistoryEvent) -> Cell {
    let cell = Cell::new(event);
    match event {
        HistoryEvent::Acquired => cell.fg(Color::Green),
        HistoryEvent::Released => cell,
        HistoryEvent::RenewedLate
        | HistoryEvent::Expired
        | HistoryEvent::TakenOver
        | HistoryEvent::Requeued
        | HistoryEvent::Reset
        | HistoryEvent::Changed => cell.fg(Color::Yellow),
        HistoryEvent::Broken
        | HistoryEvent::Late
        | HistoryEvent::Discarded
        | HistoryEvent::Forgotten
        | HistoryEvent::Resolved => cell.fg(Color::Red),
    }
}
