//! `turno inbox list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use comfy_table::Cell;
use turno::inbox::{ItemId, ItemState, ItemView};
use turno_api::{inbox, page};

use crate::context::Context;
use crate::output::{number, optional, page, time};
use crate::payload::{self, cut, printable};

/// Maximum length of a payload or error in a table, in characters, however wide the screen is.
const CUT: usize = 100;

/// Number of columns, from the first, that are never cut: id and time of an item.
const WHOLE: usize = 2;

/// List the items of one state
#[derive(Debug, Args)]
#[command(after_help = "\
Ordered by id; completed items newest first.
Payloads are cut to fit; --json prints whole payloads and all stored errors.")]
pub(crate) struct ListArgs {
    /// Queue
    queue: String,

    /// State of the items
    #[arg(long, value_name = "STATE", default_value = "pending", value_parser = PossibleValuesParser::new(ItemState::ALL.map(ItemState::as_str)).try_map(|word| word.parse::<ItemState>()))]
    state: ItemState,

    /// Maximum number of items, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only items after this id: the last id of the previous page
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    after: Option<i64>,
}

pub(crate) async fn run(context: &Context, args: ListArgs) -> Result<ExitCode> {
    let (after, limit) = (args.after.map(ItemId), page(args.limit));
    let items = context
        .read_store(async |turno| {
            let inbox = turno.inbox(&args.queue);
            Ok(inbox.list(args.state, after, limit).await?)
        })
        .await?;
    if context.output.is_json() {
        let next = page::next(&items, limit, |item| item.id);
        context.output.json(&inbox::Items { items, next })?;
    } else if items.is_empty() {
        context
            .output
            .line(&format!("{}: no item is {}", args.queue, args.state))?;
    } else {
        show(context, args.state, &items)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, state: ItemState, items: &[ItemView]) -> Result<()> {
    if state == ItemState::Completed {
        // Nothing else of completed items is stored.
        let header = ["ID", "COMPLETED", "WORKER"];
        let rows = items.iter().map(|item| {
            vec![
                number(item.id),
                optional(item.at.map(time)),
                optional(item.worker.as_deref()),
            ]
        });
        return context.output.table(&header, rows.collect());
    }
    let at = match state {
        ItemState::Processing => "CLAIMED",
        ItemState::Failed => "FAILED",
        _ => "DUE",
    };
    let header = [
        "ID", at, "PRIORITY", "KEY", "GROUP", "ATTEMPTS", "WORKER", "PAYLOAD", "ERROR",
    ];
    context
        .output
        .short_table(&header, WHOLE, items.iter().map(row).collect())
}

fn row(item: &ItemView) -> Vec<Cell> {
    let payload = item.payload.as_deref();
    let error = item.errors.last();
    vec![
        number(item.id),
        optional(item.at.map(time)),
        optional(item.priority),
        optional(item.key.as_deref()),
        optional(item.group.as_deref()),
        number(item.attempts),
        optional(item.worker.as_deref()),
        optional(payload.map(|text| cut(&payload::shown(text), CUT))),
        optional(error.map(|error| cut(&printable(&error.error), CUT))),
    ]
}
