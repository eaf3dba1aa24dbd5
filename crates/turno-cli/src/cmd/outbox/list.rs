//! `turno outbox list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use comfy_table::Cell;
use turno::inbox::ItemId;
use turno::outbox::{EventState, EventView};
use turno_api::{outbox, page};

use super::table::TableArgs;
use super::view::since;
use crate::context::Context;
use crate::fail::Usage;
use crate::output::{number, optional, page, time};
use crate::payload::{self, cut, printable};

/// Maximum length of a payload or error in a table, in characters, however wide the screen is.
const CUT: usize = 100;

/// Number of columns, from the first, that are never cut: number, id and time of an event.
const WHOLE: usize = 3;

/// List the events of one state
#[derive(Debug, Args)]
#[command(after_help = "\
In the order in which they were emitted; dispatched events newest first, and in whole batches.
Of dispatched events only the ids are kept, unless the relay archives them.
Payloads are cut to fit; --json prints whole payloads, and `turno outbox show` all data of an event.")]
pub(crate) struct ListArgs {
    /// State of the events
    #[arg(long, value_name = "STATE", default_value = "pending", value_parser = PossibleValuesParser::new(EventState::LISTED.map(EventState::as_str)).try_map(|word| word.parse::<EventState>()))]
    state: EventState,

    /// Maximum number of events, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only events after this number, the last one of the previous page; of a table, the cursor below the previous page
    #[arg(long, value_name = "SEQ", allow_hyphen_values = true)]
    after: Option<String>,

    #[command(flatten)]
    table: TableArgs,
}

pub(crate) async fn run(context: &Context, args: ListArgs) -> Result<ExitCode> {
    match &args.table.table {
        Some(table) => of_table(context, &args, table).await?,
        None => of_outbox(context, &args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn of_outbox(context: &Context, args: &ListArgs) -> Result<()> {
    let after = args.after.as_deref().map(seq).transpose()?;
    let limit = page(args.limit);
    let events = context
        .read_store(async |turno| Ok(turno.outbox().list(args.state, after, limit).await?))
        .await?;
    if context.output.is_json() {
        let next = page::next(&events, limit, |event| event.seq);
        return context.output.json(&outbox::Events { events, next });
    }
    show(context, args.state, &events, Seq::Shown)
}

async fn of_table(context: &Context, args: &ListArgs, table: &str) -> Result<()> {
    let (after, limit) = (args.after.as_deref(), page(args.limit));
    let rows = context
        .read_store(async |turno| {
            let table = turno.outbox_table(table);
            Ok(table.list(args.state, after, limit).await?)
        })
        .await?;
    if context.output.is_json() {
        return context.output.json(&rows);
    }
    show(context, args.state, &rows.events, Seq::Hidden)?;
    match rows.next {
        Some(next) => context.output.line(&format!("next page: --after {next}")),
        None => Ok(()),
    }
}

/// Parses the number of an event.
fn seq(text: &str) -> Result<ItemId, Usage> {
    let number = text.parse().map(ItemId);
    number.map_err(|_| {
        Usage::new(
            "after",
            "after must be a number: the last one of the previous page",
        )
    })
}

/// Whether events have numbers. The rows of a table have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seq {
    Shown,
    Hidden,
}

/// A column: title, whether an event has a value for it, and the value.
type Column = (&'static str, fn(&EventView) -> bool, fn(&EventView) -> Cell);

/// Optional columns. An empty column is left out, because ids are long and screens narrow.
const COLUMNS: [Column; 6] = [
    (
        "TYPE",
        |event| event.kind.is_some(),
        |event| optional(event.kind.as_deref().map(printable)),
    ),
    (
        "KEY",
        |event| event.key.is_some(),
        |event| optional(event.key.as_deref().map(printable)),
    ),
    (
        "REFUSED",
        |event| event.refused > 0,
        |event| number(event.refused),
    ),
    (
        "RELAY",
        |event| event.by.is_some(),
        |event| optional(event.by.as_deref()),
    ),
    (
        "PAYLOAD",
        |event| event.payload.is_some(),
        |event| {
            let payload = event.payload.as_deref();
            optional(payload.map(|text| cut(&payload::shown(text), CUT)))
        },
    ),
    (
        "ERROR",
        |event| !event.errors.is_empty(),
        |event| {
            let last = event.errors.last();
            optional(last.map(|error| cut(&printable(&error.error), CUT)))
        },
    ),
];

fn show(context: &Context, state: EventState, events: &[EventView], seq: Seq) -> Result<()> {
    if events.is_empty() {
        return context.output.line(&format!("no event is {state}"));
    }
    let at = since(state).to_uppercase();
    let columns = COLUMNS.iter();
    let columns: Vec<&Column> = columns
        .filter(|(_, has, _)| events.iter().any(has))
        .collect();
    let first = match seq {
        Seq::Shown => 0,
        Seq::Hidden => 1,
    };
    let mut header = vec!["SEQ", "ID", &at];
    header.extend(columns.iter().map(|(title, ..)| title));
    let rows = events.iter().map(|event| {
        let mut row = vec![
            number(event.seq),
            Cell::new(event.id),
            optional(event.at.map(time)),
        ];
        row.extend(columns.iter().map(|(.., cell)| cell(event)));
        row.split_off(first)
    });
    let whole = WHOLE - first;
    context
        .output
        .short_table(&header[first..], whole, rows.collect())
}
