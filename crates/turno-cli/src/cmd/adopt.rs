//! `turno adopt`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use turno::Turno;
use turno::adopt::{Adopt, Adoption, Shape};

use crate::context::Context;

/// Add processing columns and functions to an existing table
#[derive(Debug, Args)]
#[command(after_help = "\
Each row of the table can then be processed by one worker at a time. Adds the missing columns and
small indexes and, on PostgreSQL, functions such as acquire_processing_lock. A second call changes
nothing. No row is rewritten. If the database has other functions with these names, the command
fails: --diff compares them with the new ones, and --replace also replaces them, in one transaction.
--undo drops what was added, including its data, and restores the replaced functions.")]
pub(crate) struct AdoptArgs {
    /// Table
    table: String,

    /// Column that identifies a row
    #[arg(long, value_name = "COLUMN", required_unless_present = "undo")]
    id: Option<String>,

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

pub(crate) async fn run(context: &Context, args: AdoptArgs) -> Result<ExitCode> {
    context
        .with_store(async |turno| {
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
