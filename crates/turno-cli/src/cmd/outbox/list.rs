//! `turno outbox list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use comfy_table::Cell;
use serde::Serialize;
use turno::inbox::ItemId;
use turno::outbox::{EventState, EventView};

use super::view::{Listed, since};
use crate::context::Context;
use crate::output::{number, optional, time};
use crate::payload::{self, cut, printable};

/// The longest payload or error of a table, in characters, however wide the screen is.
const CUT: usize = 100;

/// The columns, from the first, that are never cut: an event's number, its id and its time.
const WHOLE: usize = 3;

/// List the events in one state
#[derive(Debug, Args)]
#[command(after_help = "\
In the order of their emission; dispatched ones newest first, and in whole batches.
Of dispatched events only the ids are kept, unless the relay archives them.
Payloads are cut to fit; --json prints them whole, and `turno outbox show` all there is to say.")]
pub(crate) struct ListArgs {
    /// Which
    #[arg(long, value_name = "STATE", default_value = "pending", value_parser = PossibleValuesParser::new(EventState::LISTED.map(EventState::as_str)).try_map(|word| word.parse::<EventState>()))]
    state: EventState,

    /// At most so many, 1000 at the most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only events after this one: the last number of the page before
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    after: Option<i64>,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    events: Vec<Listed<'a>>,
}

pub(crate) async fn run(context: &Context, args: ListArgs) -> Result<ExitCode> {
    let after = args.after.map(ItemId);
    let events = context
        .with_store(async |turno| Ok(turno.outbox().list(args.state, after, args.limit).await?))
        .await?;
    if context.output.is_json() {
        let events = events.iter().map(Listed::of).collect::<Result<_>>()?;
        context.output.json(&Answer { events })?;
    } else if events.is_empty() {
        context.output.line(&format!("nothing is {}", args.state))?;
    } else {
        show(context, args.state, &events)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, state: EventState, events: &[EventView]) -> Result<()> {
    let at = since(state).to_uppercase();
    if state == EventState::Dispatched {
        // Nothing else is listed of them.
        let header = ["SEQ", "ID", &at, "RELAY"];
        let rows = events.iter().map(|event| {
            vec![
                number(event.seq),
                Cell::new(event.id),
                optional(event.at.map(time)),
                optional(event.by.as_deref()),
            ]
        });
        return context.output.table(&header, rows.collect());
    }
    let header = [
        "SEQ", "ID", &at, "TYPE", "KEY", "REFUSED", "RELAY", "PAYLOAD", "ERROR",
    ];
    context
        .output
        .short_table(&header, WHOLE, events.iter().map(row).collect())
}

fn row(event: &EventView) -> Vec<Cell> {
    let payload = event.payload.as_deref();
    let error = event.errors.last();
    vec![
        number(event.seq),
        Cell::new(event.id),
        optional(event.at.map(time)),
        optional(event.kind.as_deref().map(printable)),
        optional(event.key.as_deref().map(printable)),
        number(event.refused),
        optional(event.by.as_deref()),
        optional(payload.map(|text| cut(&payload::shown(text), CUT))),
        optional(error.map(|error| cut(&printable(&error.error), CUT))),
    ]
}
