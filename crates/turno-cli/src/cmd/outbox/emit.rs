//! `turno outbox emit`

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno::Settings;
use turno::outbox::Outbox;
use turno_api::outbox;
use uuid::Uuid;

use super::event::{self, Draft};
use crate::bulk::{self, Words};
use crate::context::Context;
use crate::duration;
use crate::fail::Usage;
use crate::ndjson::{Kind, Lines};

/// Maximum size of a line without its payload, in bytes. Mostly headers.
const BESIDE_PAYLOAD: usize = 2 * 1024 * 1024;

const WORDS: Words = Words {
    things: "events",
    push: "emit",
    pushed: "emitted",
    safe: "with an id in each line",
};

/// Emit events
#[derive(Debug, Args)]
#[command(after_help = "\
For scripts and tests. An application emits in its own transaction, so that an event is published if
and only if the transaction commits.
A payload is JSON: '{\"id\": 7}', 7 or, with its own quotes, '\"a text\"'.
A line of a file is {\"type\": …, \"payload\": …} and optionally \"key\", \"correlation_id\",
\"headers\": {…}, \"delay\": \"5m\", \"traceparent\", \"tracestate\" and \"id\".
Of a file, either all or none of each 1000 events are stored.
An event whose id exists already is not stored again.")]
pub(crate) struct EmitArgs {
    /// Type of the event, such as TicketCreatedEvent
    #[arg(value_name = "TYPE", required_unless_present = "file")]
    kind: Option<String>,

    /// Payload, as JSON; - reads it from standard input, @FILE from a file [default: null]
    #[arg(value_name = "PAYLOAD", allow_negative_numbers = true)]
    payload: Option<String>,

    /// File with one event per line (NDJSON); - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "payload"])]
    file: Option<PathBuf>,

    #[command(flatten)]
    about: AboutArgs,

    /// Maximum size of a payload, in bytes [default: 1048576]
    #[arg(long, env = "TURNO_MAX_PAYLOAD", hide_env_values = true, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    max_payload: Option<u32>,
}

/// Options of the event.
#[derive(Debug, Args)]
struct AboutArgs {
    /// Ordering key: events of one key are published in order
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    key: Option<String>,

    /// Correlation id, which relates events across services
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    correlation_id: Option<String>,

    /// Custom header; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = header, conflicts_with = "file")]
    header: Vec<(String, String)>,

    /// Time before the event may be published
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, conflicts_with = "file")]
    delay: Option<Duration>,

    /// W3C trace context, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    traceparent: Option<String>,

    /// W3C trace state
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    tracestate: Option<String>,

    /// Id of the event: an event that is emitted again is stored once [default: a new UUID]
    #[arg(long, value_name = "UUID", value_parser = super::id, conflicts_with = "file")]
    id: Option<Uuid>,
}

fn header(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a header as NAME=VALUE".to_owned())
}

impl AboutArgs {
    fn headers(&self) -> Result<BTreeMap<String, String>, Usage> {
        let mut headers = BTreeMap::new();
        for (name, value) in &self.header {
            if headers.insert(name.clone(), value.clone()).is_some() {
                let detail = format!("header {name:?} is given twice: give it once");
                return Err(Usage::new("header", detail));
            }
        }
        Ok(headers)
    }
}

pub(crate) async fn run(context: &Context, args: EmitArgs) -> Result<ExitCode> {
    let settings = settings(context, &args);
    match &args.file {
        None => {
            let event = draft(&args, settings.max_payload)?.event()?;
            context
                .with(settings, async |turno| {
                    let ids = turno.outbox().emit_many([event]).await?;
                    tell(context, &ids)
                })
                .await?;
        }
        Some(path) => {
            let kind = Kind {
                field: "event",
                longest: settings.max_payload.saturating_add(BESIDE_PAYLOAD),
                remedy: "write one event per line, store its payload elsewhere and emit a reference, or raise max_payload",
            };
            let lines = Lines::open(path, kind)?;
            context
                .with(settings, async |turno| {
                    let ids = emit_file(context, &turno.outbox(), lines).await?;
                    tell_file(context, &ids)
                })
                .await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the settings with the payload limit of the option, the environment or `[outbox]`. The inbox has its own limit.
fn settings(context: &Context, args: &EmitArgs) -> Settings {
    let said = args.max_payload.and_then(|bytes| bytes.try_into().ok());
    let max_payload = said.or(context.outbox.max_payload());
    let mut settings = context.settings.clone();
    settings.max_payload = max_payload.unwrap_or(turno::MAX_PAYLOAD_BYTES);
    settings
}

/// Returns the event of the command line.
fn draft(args: &EmitArgs, max_payload: usize) -> Result<Draft, Usage> {
    let about = &args.about;
    Ok(Draft {
        kind: args.kind.clone().unwrap_or_default(),
        payload: payload(args.payload.as_deref(), max_payload)?,
        key: about.key.clone(),
        correlation_id: about.correlation_id.clone(),
        headers: about.headers()?,
        delay: about.delay,
        traceparent: about.traceparent.clone(),
        tracestate: about.tracestate.clone(),
        id: about.id,
    })
}

/// Returns the payload, or reads it. White space around it is not part of it.
fn payload(said: Option<&str>, most: usize) -> Result<String, Usage> {
    let (from, read) = match said {
        None => return Ok("null".to_owned()),
        Some("-") => ("standard input", bounded(io::stdin().lock(), most)),
        // JSON never begins with this character.
        Some(text) => match text.strip_prefix('@') {
            Some(path) => (
                path,
                File::open(Path::new(path)).and_then(|file| bounded(file, most)),
            ),
            None => return Ok(text.to_owned()),
        },
    };
    let wrong = |detail| Usage::new("payload", detail);
    let bytes = read.map_err(|error| {
        wrong(format!(
            "{from} cannot be read ({error}): give a file as in @event.json, or - for standard input"
        ))
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| wrong(format!("payload is not UTF-8: write {from} in UTF-8")))?;
    Ok(text.trim().to_owned())
}

/// Reads slightly more than the limit: memory use is bounded, and the outbox reports the payload as too large.
fn bounded(from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

async fn emit_file(context: &Context, outbox: &Outbox, lines: Lines) -> Result<Vec<Uuid>> {
    let mut ids = Vec::new();
    let read = |line: String| {
        let event = event::from_line(&line)?;
        // Checked here, where the error can name the line.
        outbox.check(&event)?;
        Ok(event)
    };
    bulk::store(context.output, lines, &WORDS, read, async |events| {
        let stored = outbox.emit_many(events).await?;
        let many = stored.len() as u64;
        ids.extend(stored);
        Ok(many)
    })
    .await?;
    Ok(ids)
}

fn tell(context: &Context, ids: &[Uuid]) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(&outbox::Emitted { ids: ids.to_vec() });
    }
    for id in ids {
        context.output.line(&format!("{id} is emitted"))?;
    }
    Ok(())
}

fn tell_file(context: &Context, ids: &[Uuid]) -> Result<()> {
    if context.output.is_json() {
        return tell(context, ids);
    }
    // For many events, the ids are not printed to people.
    context.output.line(&format!("emitted: {}", ids.len()))
}
