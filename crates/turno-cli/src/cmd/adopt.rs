//! `turno adopt`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use turno::Turno;
use turno::adopt::{Adopt, Adoption, Shape};
use turno::outbox::{AdoptOutbox, AdoptedOutboxTable};

use crate::context::Context;

/// Add processing columns and functions to an existing table
#[derive(Debug, Args)]
#[command(after_help = "\
Each row of the table can then be processed by one worker at a time. Adds the missing columns and
small indexes and, on PostgreSQL, functions such as acquire_processing_lock. A second call changes
nothing. No row is rewritten. If the database has other functions with these names, the command
fails: --diff compares them with the new ones, and --replace also replaces them, in one transaction.
--undo drops what was added, including its data, and restores the replaced functions.
With --as outbox the table's rows are events, which `turno outbox relay --table TABLE` publishes.
Columns with usual names, such as those of Entity Framework, need not be named.")]
pub(crate) struct AdoptArgs {
    /// Table
    table: String,

    /// Purpose of the table: outbox (its rows are events to publish)
    #[arg(long = "as", id = "as", value_name = "PURPOSE", value_parser = ["outbox"], hide_possible_values = true, conflicts_with_all = ["user", "shape", "suffix", "diff", "replace"])]
    purpose: Option<String>,

    /// Column that identifies a row
    #[arg(long, value_name = "COLUMN", required_unless_present_any = ["undo", "as"])]
    id: Option<String>,

    #[command(flatten)]
    events: EventColumns,

    /// Column that selects the rows of one user [default: user_id, if it exists]
    #[arg(long, value_name = "COLUMN")]
    user: Option<String>,

    /// Shape of the added columns: processing (locks, attempts, errors) or processed (one flag)
    #[arg(long, value_name = "SHAPE", default_value = "processing", value_parser = ["processing", "processed"], hide_possible_values = true)]
    shape: String,

    /// Suffix of the function names, if another table already uses the names
    #[arg(long, value_name = "TEXT")]
    suffix: Option<String>,

    /// Maximum number of attempts per row
    #[arg(long, value_name = "N", default_value_t = turno::adopt::ADOPTED_ATTEMPTS)]
    max_attempts: u32,

    /// Print the SQL, and change nothing
    #[arg(long)]
    print: bool,

    /// Compare existing functions with the new ones, and change nothing
    #[arg(long, conflicts_with_all = ["print", "replace"])]
    diff: bool,

    /// Replace existing functions with the same names
    #[arg(long)]
    replace: bool,

    /// Drop what was added, and restore the replaced functions
    #[arg(long, conflicts_with_all = ["id", "user", "shape", "suffix", "max_attempts", "print", "diff", "replace"])]
    undo: bool,
}

/// Columns of a table of events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Columns of an outbox (--as outbox)")]
struct EventColumns {
    /// Type of the event
    #[arg(long = "type", value_name = "COLUMN", requires = "as")]
    kind: Option<String>,

    /// Payload, JSON
    #[arg(long, value_name = "COLUMN", requires = "as")]
    payload: Option<String>,

    /// Time of creation, by which rows are ordered
    #[arg(long, value_name = "COLUMN", requires = "as")]
    created: Option<String>,

    /// Order of rows before their time of creation, such as a sequence number
    #[arg(long, value_name = "COLUMN", requires = "as")]
    order: Option<String>,

    /// Time of publication, or a flag; added if there is none
    #[arg(long, value_name = "COLUMN", requires = "as")]
    processed: Option<String>,

    /// Number of attempts; added if there is none
    #[arg(long, value_name = "COLUMN", requires = "as")]
    attempts: Option<String>,

    /// Last error; added if there is none
    #[arg(long, value_name = "COLUMN", requires = "as")]
    error: Option<String>,

    /// Ordering key: rows of one key are published in order
    #[arg(long, value_name = "COLUMN", requires = "as")]
    key: Option<String>,

    /// Correlation id
    #[arg(long, value_name = "COLUMN", requires = "as")]
    correlation_id: Option<String>,
}

pub(crate) async fn run(context: &Context, args: AdoptArgs) -> Result<ExitCode> {
    context
        .with_store(async |turno| {
            if args.undo && is_outbox(turno, &args).await? {
                let undone = turno.outbox_table(&args.table).unadopt().await?;
                return show_outbox(context, "undone", &undone);
            }
            if args.purpose.is_some() && !args.undo {
                let adopt = outbox(turno, &args);
                if args.print {
                    return script(context, &adopt.print().await?);
                }
                return show_outbox(context, "adopted", &adopt.apply().await?);
            }
            if args.undo {
                return show(
                    context,
                    ("undone", "restored"),
                    &turno.unadopt(&args.table).await?,
                );
            }
            let adopt = asked(turno, &args)?;
            if args.diff {
                return difference(context, &adopt.difference().await?);
            }
            if args.print {
                return script(context, &adopt.print().await?);
            }
            // People see what is lost before it is lost. Programs read `replaced` of the output.
            if args.replace && !context.output.is_json() {
                difference(context, &adopt.clone().difference().await?)?;
            }
            show(context, ("adopted", "replaced"), &adopt.apply().await?)
        })
        .await?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the table is adopted as an outbox, for an undo that does not say so. An error for a missing table is that of the undo.
async fn is_outbox(turno: &Turno, args: &AdoptArgs) -> Result<bool> {
    if args.purpose.is_some() {
        return Ok(true);
    }
    match turno.outbox_table(&args.table).find().await {
        Ok(found) => Ok(found.is_some()),
        Err(error) if error.is_invalid() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn outbox(turno: &Turno, args: &AdoptArgs) -> AdoptOutbox {
    type Set = fn(AdoptOutbox, String) -> AdoptOutbox;
    let events = &args.events;
    let columns: [(&Option<String>, Set); 10] = [
        (&args.id, AdoptOutbox::id),
        (&events.kind, AdoptOutbox::kind),
        (&events.payload, AdoptOutbox::payload),
        (&events.created, AdoptOutbox::created),
        (&events.order, AdoptOutbox::order),
        (&events.processed, AdoptOutbox::processed),
        (&events.attempts, AdoptOutbox::attempts),
        (&events.error, AdoptOutbox::error),
        (&events.key, AdoptOutbox::key),
        (&events.correlation_id, AdoptOutbox::correlation_id),
    ];
    let adopt = turno
        .adopt_outbox(&args.table)
        .max_attempts(args.max_attempts);
    columns
        .into_iter()
        .fold(adopt, |adopt, (column, set)| match column {
            Some(column) => set(adopt, column.clone()),
            None => adopt,
        })
}

fn asked(turno: &Turno, args: &AdoptArgs) -> Result<Adopt> {
    let mut adopt = turno
        .adopt(&args.table)
        .shape(args.shape.parse::<Shape>()?)
        .max_attempts(args.max_attempts);
    if let Some(id) = &args.id {
        adopt = adopt.id(id);
    }
    if let Some(user) = &args.user {
        adopt = adopt.user(user);
    }
    if let Some(suffix) = &args.suffix {
        adopt = adopt.suffix(suffix);
    }
    if args.replace {
        adopt = adopt.replace();
    }
    Ok(adopt)
}

fn script(context: &Context, sql: &str) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(&json!({"sql": sql}));
    }
    context.output.raw(sql.as_bytes())
}

fn difference(context: &Context, difference: &str) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(&json!({"difference": difference}));
    }
    if difference.is_empty() {
        return context.output.line("there are no functions to replace");
    }
    context.output.line(difference)
}

fn show_outbox(context: &Context, done: &str, table: &AdoptedOutboxTable) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(table);
    }
    let listed = |names: &[String]| (!names.is_empty()).then(|| names.join("\n"));
    let columns = &table.columns;
    let named = |column: &str| Some(column.to_owned());
    context.output.pairs(&[
        (done, named(&table.table)),
        ("id", named(&columns.id)),
        ("type", named(&columns.kind)),
        ("payload", named(&columns.payload)),
        ("created", named(&columns.created)),
        ("order", columns.order.clone()),
        ("processed", named(&columns.processed)),
        ("attempts", named(&columns.attempts)),
        ("error", named(&columns.error)),
        ("key", columns.key.clone()),
        ("correlation id", columns.correlation_id.clone()),
        ("max attempts", Some(table.max_attempts.to_string())),
        ("columns", listed(&table.added)),
        ("indexes", listed(&table.indexes)),
    ])
}

fn show(context: &Context, (done, replaced): (&str, &str), adoption: &Adoption) -> Result<()> {
    if context.output.is_json() {
        return context.output.json(adoption);
    }
    let listed = |names: &[String]| (!names.is_empty()).then(|| names.join("\n"));
    context.output.pairs(&[
        (done, Some(adoption.table.clone())),
        ("id", Some(adoption.id.clone())),
        ("user", adoption.user.clone()),
        ("shape", Some(adoption.shape.to_string())),
        ("columns", listed(&adoption.columns)),
        ("indexes", listed(&adoption.indexes)),
        ("functions", listed(&adoption.functions)),
        (replaced, listed(&adoption.replaced)),
    ])
}
