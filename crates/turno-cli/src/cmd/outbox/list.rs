//! `turno outbox list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use comfy_table::Cell;
use turno::inbox::ItemId;
use turno::outbox::{EventState, EventView};
use turno_api::{outbox, page};

use super::table::{EventSource, TableArgs};
use super::view::since;
use crate::context::Context;
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

    /// Only events after this number: the last one of the previous page
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    after: Option<i64>,

    #[command(flatten)]
    table: TableArgs,
}

pub(crate) async fn run(context: &Context, args: ListArgs) -> Result<ExitCode> {
    let (after, limit) = (args.after.map(ItemId), page(args.limit));
    let table = args.table.table;
    let events = context
        .read_store(async |turno| {
            let source = EventSource::new(turno, table.clone());
            Ok(source.list(args.state, after, limit).await?)
        })
        .await?;
    if context.output.is_json() {
        let next = page::next(&events, limit, |event| event.seq);
        context.output.json(&outbox::Events { events, next })?;
    } else if events.is_empty() {
        context
            .output
            .line(&format!("no event is {}", args.state))?;
    } else {
        show(context, args.state, &events)?;
    }
    Ok(ExitCode::SUCCESS)
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

fn show(context: &Context, state: EventState, events: &[EventView]) -> Result<()> {
    let at = since(state).to_uppercase();
    let columns = COLUMNS.iter();
    let columns: Vec<&Column> = columns
        .filter(|(_, has, _)| events.iter().any(has))
        .collect();
    let mut header = vec!["SEQ", "ID", &at];
    header.extend(columns.iter().map(|(title, ..)| title));
    let rows = events.iter().map(|event| {
        let mut row = vec![
            number(event.seq),
            Cell::new(event.id),
            optional(event.at.map(time)),
        ];
        row.extend(columns.iter().map(|(.., cell)| cell(event)));
        row
    });
    context.output.short_table(&header, WHOLE, rows.collect())
}
