//! `turno inbox push`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use turno::inbox::{Inbox, Item, PushedItem};
use turno_api::inbox;

use super::field::Source;
use crate::bulk::{self, Words};
use crate::context::Context;
use crate::duration;
use crate::fail::Usage;
use crate::ndjson::{Kind, Lines};

const WORDS: Words = Words {
    things: "items",
    push: "push",
    pushed: "pushed",
    safe: "with --key-field",
};

/// Push items into a queue
#[derive(Debug, Args)]
#[command(after_help = "\
A payload is JSON: '{\"id\": 7}', 7 or, with its own quotes, '\"a text\"'.
Either all items are stored or none; of a file, either all or none of each 1000.
An item whose key exists already is reported as a duplicate, and not stored again.")]
pub(crate) struct PushArgs {
    /// Queue, such as presentations
    queue: String,

    /// Payload of an item, as JSON
    #[arg(
        value_name = "PAYLOAD",
        required_unless_present = "file",
        allow_negative_numbers = true
    )]
    payload: Vec<String>,

    /// File with one payload per line (NDJSON); - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    file: Option<PathBuf>,

    #[command(flatten)]
    item: ItemArgs,

    /// Maximum size of a payload, in bytes [default: 1048576]
    #[arg(long, env = "TURNO_MAX_PAYLOAD", hide_env_values = true, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    max_payload: Option<u32>,
}

/// Options of the items.
#[derive(Debug, Args)]
struct ItemArgs {
    /// Unique key: an item that is pushed again is stored once
    #[arg(long, value_name = "KEY", conflicts_with_all = ["file", "key_field"])]
    key: Option<String>,

    /// Field of the payload that is the item's unique key
    #[arg(long, value_name = "FIELD")]
    key_field: Option<String>,

    /// Group: its items are processed in order, one at a time
    #[arg(long, value_name = "GROUP", conflicts_with = "group_field")]
    group: Option<String>,

    /// Field of the payload that is the item's group
    #[arg(long, value_name = "FIELD")]
    group_field: Option<String>,

    /// Priority from 0, which is claimed first, to 3 [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<u8>,

    /// Time before the item may be claimed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    delay: Option<Duration>,

    /// Due time: when the item may be claimed, such as 2030-01-31T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true, conflicts_with = "delay")]
    run_at: Option<Timestamp>,

    /// Maximum number of attempts; then it becomes a failed item [default: 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_attempts: Option<u16>,
}

fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        "write a time as 2030-01-31T09:00:00Z, or with an offset such as +02:00".to_owned()
    })
}

impl ItemArgs {
    fn item(&self, payload: String) -> Result<Item, Usage> {
        // Check first that the payload is JSON.
        let mut item = Item::from_json(payload.as_str());
        if let Some(error) = item.payload_error() {
            return Err(Usage::new("payload", error.to_string()));
        }
        if let Some(field) = &self.key_field {
            item = item.unique_key(Source::of_key(field).take(&payload)?);
        } else if let Some(key) = &self.key {
            item = item.unique_key(key);
        }
        if let Some(field) = &self.group_field {
            item = item.group(Source::of_group(field).take(&payload)?);
        } else if let Some(group) = &self.group {
            item = item.group(group);
        }
        Ok(self.when(item))
    }

    fn when(&self, mut item: Item) -> Item {
        if let Some(priority) = self.priority {
            item = item.priority(priority);
        }
        if let Some(delay) = self.delay {
            item = item.delay(delay);
        }
        if let Some(time) = self.run_at {
            item = item.at(time);
        }
        if let Some(attempts) = self.max_attempts {
            item = item.max_attempts(attempts);
        }
        item
    }
}

pub(crate) async fn run(context: &Context, args: PushArgs) -> Result<ExitCode> {
    let mut settings = context.settings.clone();
    if let Some(bytes) = args.max_payload {
        settings.max_payload = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    match &args.file {
        None => {
            let items = items(&args)?;
            context
                .with(settings, async |turno| {
                    let pushed = turno.inbox(&args.queue).push_many(items).await?;
                    tell(context, &pushed)
                })
                .await?;
        }
        Some(path) => {
            let kind = Kind {
                field: "payload",
                longest: settings.max_payload,
                remedy: "write one payload per line, store it elsewhere and push a reference, or raise max_payload",
            };
            let lines = Lines::open(path, kind)?;
            context
                .with(settings, async |turno| {
                    let inbox = turno.inbox(&args.queue);
                    let counts = push_file(context, &inbox, lines, &args.item).await?;
                    tell_file(context, counts)
                })
                .await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the items of the command line.
fn items(args: &PushArgs) -> Result<Vec<Item>, Usage> {
    if args.item.key.is_some() && args.payload.len() > 1 {
        return Err(Usage::new(
            "key",
            "key applies to one payload, but several are given: push them one by one, or use --key-field",
        ));
    }
    let payloads = args.payload.iter().cloned();
    payloads.map(|payload| args.item.item(payload)).collect()
}

fn tell(context: &Context, pushed: &[PushedItem]) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(&inbox::Pushed::of(pushed));
    }
    for PushedItem { id, duplicate } in pushed {
        context.output.line(&if *duplicate {
            format!("{id} exists already, with the same key")
        } else {
            format!("{id} is pushed")
        })?;
    }
    Ok(())
}

/// Counts of a bulk push.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    pushed: u64,
    duplicates: u64,
}

fn tell_file(context: &Context, counts: Counts) -> Result<()> {
    let Counts { pushed, duplicates } = counts;
    if context.output.is_json() {
        return context
            .output
            .json(&json!({"pushed": pushed, "duplicates": duplicates}));
    }
    context
        .output
        .line(&format!("pushed: {pushed}   duplicates: {duplicates}"))
}

async fn push_file(
    context: &Context,
    inbox: &Inbox,
    lines: Lines,
    args: &ItemArgs,
) -> Result<Counts> {
    let mut counts = Counts::default();
    let read = |payload| Ok(args.item(payload)?);
    bulk::store(context.output, lines, &WORDS, read, async |items| {
        let pushed = inbox.push_many(items).await?;
        let duplicates = pushed.iter().filter(|item| item.duplicate).count();
        let fresh = (pushed.len() - duplicates) as u64;
        counts.duplicates += duplicates as u64;
        counts.pushed += fresh;
        Ok(fresh)
    })
    .await?;
    Ok(counts)
}
