//! `turno outbox show`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use turno::outbox::{EventState, EventView};
use uuid::Uuid;

use super::view::since;
use crate::context::Context;
use crate::fail::NotFound;
use crate::output::{number, optional, time};
use crate::payload::{self, printable};

/// Show one event
#[derive(Debug, Args)]
#[command(after_help = "\
Of a dispatched event only the id is kept, unless the relay archives it.
Exits with 1 if the event does not exist, or was deleted.")]
pub(crate) struct ShowArgs {
    /// Id of the event
    #[arg(value_name = "ID", value_parser = super::id)]
    id: Uuid,
}

pub(crate) async fn run(context: &Context, args: ShowArgs) -> Result<ExitCode> {
    let found = context
        .read_store(async |turno| Ok(turno.outbox().find(args.id).await?))
        .await?;
    let event = found.ok_or_else(|| {
        NotFound(format!(
            "there is no event {}: it was never emitted here, or was dispatched or discarded and then deleted by a sweep",
            args.id
        ))
    })?;
    if context.output.is_json() {
        context.output.json(&event)?;
    } else {
        show(context, &event)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, event: &EventView) -> Result<()> {
    let text = |text: &Option<String>| text.as_deref().map(printable);
    let by = match event.state {
        EventState::Discarded => "by",
        _ => "relay",
    };
    let count = |count: u32| (count > 0).then(|| count.to_string());
    context.output.pairs(&[
        ("id", Some(event.id.to_string())),
        ("seq", Some(event.seq.to_string())),
        ("state", Some(event.state.to_string())),
        ("type", text(&event.kind)),
        ("key", text(&event.key)),
        ("correlation id", text(&event.correlation_id)),
        ("traceparent", text(&event.traceparent)),
        ("emitted", event.emitted_at.map(time)),
        (since(event.state), event.at.map(time)),
        (by, text(&event.by)),
        ("refused", Some(event.refused.to_string())),
        ("maybe delivered", count(event.doubtful)),
    ])?;
    if !event.headers.is_empty() {
        let rows = event.headers.iter();
        let rows = rows.map(|(name, value)| vec![Cell::new(name), Cell::new(printable(value))]);
        context.output.line("")?;
        context.output.table(&["HEADER", "VALUE"], rows.collect())?;
    }
    if let Some(payload) = &event.payload {
        context.output.line("")?;
        context.output.line(&payload::pretty(payload))?;
    }
    if !event.errors.is_empty() {
        context.output.line("")?;
        errors(context, event)?;
    }
    Ok(())
}

fn errors(context: &Context, event: &EventView) -> Result<()> {
    let rows = event.errors.iter().map(|error| {
        vec![
            number(error.attempt),
            Cell::new(time(error.at)),
            optional(error.worker.as_deref()),
            Cell::new(printable(&error.error)),
        ]
    });
    context
        .output
        .table(&["ATTEMPT", "AT", "RELAY", "ERROR"], rows.collect())
}
