//! `turno inbox list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use comfy_table::Cell;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use turno::inbox::{AttemptError, ItemId, ItemState, ItemView};

use crate::context::Context;
use crate::output::{number, optional, time};
use crate::payload::{self, cut, printable};

/// The longest payload or error of a table, in characters, however wide the screen is.
const CUT: usize = 100;

/// The columns, from the first, that are never cut: an item's number and its time.
const WHOLE: usize = 2;

/// List the items in one state
#[derive(Debug, Args)]
#[command(after_help = "\
In order of their ids, completed ones newest first.
Payloads are cut to fit; --json prints them whole, and all errors that were kept.")]
pub(crate) struct ListArgs {
    /// Where they are
    queue: String,

    /// Which
    #[arg(long, value_name = "STATE", default_value = "pending", value_parser = PossibleValuesParser::new(ItemState::ALL.map(ItemState::as_str)).try_map(|word| word.parse::<ItemState>()))]
    state: ItemState,

    /// At most so many, 1000 at the most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only items after this one: the last of the page before
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    after: Option<i64>,
}

/// An item as it is printed.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    id: ItemId,
    state: ItemState,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    attempts: u32,
    abandoned: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pushed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    errors: &'a [AttemptError],
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    items: Vec<Listed<'a>>,
}

pub(crate) async fn run(context: &Context, args: ListArgs) -> Result<ExitCode> {
    let after = args.after.map(ItemId);
    let items = context
        .with_store(async |turno| {
            let inbox = turno.inbox(&args.queue);
            Ok(inbox.list(args.state, after, args.limit).await?)
        })
        .await?;
    if context.output.is_json() {
        let items = items.iter().map(object).collect::<Result<_>>()?;
        context.output.json(&Answer { items })?;
    } else if items.is_empty() {
        context
            .output
            .line(&format!("{}: nothing is {}", args.queue, args.state))?;
    } else {
        show(context, args.state, &items)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn object(item: &ItemView) -> Result<Listed<'_>> {
    Ok(Listed {
        id: item.id,
        state: item.state,
        payload: item.payload.as_deref().map(payload::value).transpose()?,
        key: item.key.as_deref(),
        group: item.group.as_deref(),
        priority: item.priority,
        attempts: item.attempts,
        abandoned: item.abandoned,
        worker: item.worker.as_deref(),
        pushed_at: item.pushed_at,
        at: item.at,
        errors: &item.errors,
    })
}

fn show(context: &Context, state: ItemState, items: &[ItemView]) -> Result<()> {
    if state == ItemState::Completed {
        // Nothing else is kept of them.
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
