//! `turno migrate`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::context::Context;
use crate::fail::Usage;

/// Bring the store's schema up to date
#[derive(Debug, Args)]
#[command(after_help = "\
Instances that do so together take turns, and those that run meanwhile keep running.")]
pub(crate) struct MigrateArgs {
    /// Print the whole schema as SQL, and connect to nothing
    #[arg(long)]
    print: bool,

    /// With --print: as a migration file for supabase, whose command line applies it
    #[arg(long = "for", value_name = "SERVICE", requires = "print", value_enum)]
    service: Option<Service>,
}

/// A service whose own tool applies the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Service {
    Supabase,
}

pub(crate) async fn run(context: &Context, args: MigrateArgs) -> Result<ExitCode> {
    if args.print {
        let script = match args.service {
            Some(Service::Supabase) => turno::store::postgres::script_for_supabase(),
            None => script(&context.store)?,
        };
        context.output.raw(script.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let migrated = context
        .with(context.unchecked(), async |turno| {
            Ok(turno.store().migrate().await?)
        })
        .await?;
    if context.output.is_json() {
        context.output.json(&migrated)?;
    } else {
        let from = migrated
            .from
            .map_or("none".to_owned(), |version| version.to_string());
        let unchanged = if migrated.to > turno::store::SCHEMA_VERSION {
            " (newer than this program, and compatible: nothing to do)"
        } else if migrated.from == Some(migrated.to) {
            " (already up to date)"
        } else {
            ""
        };
        context
            .output
            .line(&format!("schema: {from} → {}{unchanged}", migrated.to))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn script(store: &str) -> Result<String> {
    match store.split(':').next() {
        Some("postgres" | "postgresql") => Ok(turno::store::postgres::script()),
        Some("sqlite") => Ok(turno::store::sqlite::script()),
        _ => Err(Usage::new("store", "unknown store: give --store sqlite: or --store postgres: to choose whose schema is printed").into()),
    }
}
