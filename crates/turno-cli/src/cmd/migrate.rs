//! `turno migrate`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use turno::Roles;
use turno::store::{MigrateOptions, Migrated, SchemaDrift, SettingChange};

use crate::context::Context;
use crate::fail::Usage;

/// Migrate the schema of the store to the current version
#[derive(Debug, Args)]
#[command(after_help = "\
Concurrent migrations run one after the other. Running instances keep working.

On PostgreSQL, roles other than the owner use the schema through turno_app (applications) and
turno_operator (also break, requeue, reset, discard, forget, resolve, sweep). They are created if
the owner may create roles. If not, an administrator creates them, and --repair grants the rights.

Settings apply to all callers of a PostgreSQL database, and are stored in it:
  app_role, operator_role  roles to use instead of turno_app and turno_operator
  max_ttl                  maximum TTL of a lock, for all callers [default: 30 days]
  max_payload              maximum size of a payload, for all callers [default: 64MB]
  notify                   notifications to waiters, on or off [default: on]
`turno doctor` shows changed settings, `turno history --part setting` who changed them.")]
pub(crate) struct MigrateArgs {
    /// Print the schema as SQL, without connecting to a store
    #[arg(long)]
    print: bool,
    /// Do not create database roles or grant them rights
    #[arg(long)]
    no_roles: bool,
    /// Re-create functions and re-apply grants that differ from what this program ships
    #[arg(long, conflicts_with = "print")]
    repair: bool,

    /// Change a setting of the database; NAME= restores its default
    #[arg(
        long = "setting",
        value_name = "NAME=VALUE",
        conflicts_with = "service"
    )]
    settings: Vec<SettingChange>,

    /// User who changes settings, for the history [default: user of turno.toml]
    #[arg(long, env = "TURNO_USER", hide_env_values = true, value_name = "NAME")]
    user: Option<String>,

    /// With --print: format of a migration file for this service
    #[arg(
        long = "for",
        value_name = "SERVICE",
        requires = "print",
        conflicts_with = "no_roles",
        value_enum
    )]
    service: Option<Service>,
}

/// A service whose own tool applies the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Service {
    Supabase,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    migrated: Migrated,
    /// Whether differences were repaired.
    repaired: bool,
    #[serde(flatten)]
    drift: SchemaDrift,
    /// SQL that an administrator must run to create the roles.
    administrator_sql: Vec<String>,
}

pub(crate) async fn run(context: &Context, args: MigrateArgs) -> Result<ExitCode> {
    let roles = if args.no_roles {
        Roles::Skip
    } else {
        Roles::Grant
    };
    let options = MigrateOptions {
        roles,
        settings: args.settings,
        user: args.user.or_else(|| context.settings.user.clone()),
    };
    if args.print {
        let script = match args.service {
            Some(Service::Supabase) => turno::store::postgres::script_for_supabase(),
            None => script(&context.store, &options)?,
        };
        context.output.raw(script.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (migrated, mut drift) = context
        .with(context.unchecked(), async |turno| {
            let store = turno.store();
            let migrated = store.migrate_with(&options).await?;
            let drift = match args.repair {
                // A newer schema has other functions than those of this program.
                _ if migrated.to > turno::store::SCHEMA_VERSION => SchemaDrift::default(),
                true => store.repair(roles).await?,
                false => store.schema_drift().await?,
            };
            Ok((migrated, drift))
        })
        .await?;
    if roles == Roles::Skip {
        // The user asked for no roles, so none is missing.
        drift.missing_roles.clear();
        drift.missing_grants.clear();
        drift
            .excess_grants
            .retain(|grant| grant.starts_with("public: "));
    }
    let report = Report {
        migrated: Migrated {
            // The drift has the same list.
            missing_roles: Vec::new(),
            ..migrated
        },
        repaired: args.repair && drift.is_repairable(),
        administrator_sql: drift.administrator_sql(),
        drift,
    };
    if context.output.is_json() {
        context.output.json(&report)?;
    } else {
        print(context, &report)?;
    }
    explain(context, &report);
    Ok(ExitCode::SUCCESS)
}

fn print(context: &Context, report: &Report) -> Result<()> {
    let Migrated { from, to, .. } = report.migrated;
    let unchanged = if to > turno::store::SCHEMA_VERSION {
        " (newer than this program, and compatible: nothing was changed)"
    } else if from == Some(to) {
        " (already up to date)"
    } else {
        ""
    };
    let from = from.map_or("none".to_owned(), |version| version.to_string());
    context
        .output
        .line(&format!("schema: {from} → {to}{unchanged}"))?;
    for changed in &report.migrated.changed_settings {
        context.output.line(&format!(
            "setting {}: {} → {}",
            changed.name, changed.before, changed.value
        ))?;
    }
    if report.repaired {
        for (what, names) in differing(&report.drift) {
            context.output.line(&format!("repaired, {what}: {names}"))?;
        }
    }
    Ok(())
}

/// Prints what is left for the operator to do, on standard error.
fn explain(context: &Context, report: &Report) {
    if !report.repaired {
        for (what, names) in differing(&report.drift) {
            context.output.note(&format!("warning: {what}: {names}"));
        }
        if report.drift.is_repairable() {
            context
                .output
                .note("run `turno migrate --repair` as the owner of the schema");
        }
    }
    if !report.administrator_sql.is_empty() {
        context.output.note(&format!(
            "warning: missing roles, which this role may not create: {}. Only the owner can use the schema.\n\
             To let other roles use it, an administrator runs\n    {}\n\
             and then `turno migrate --repair` grants them the functions. --no-roles works without them.",
            report.drift.missing_roles.join(", "),
            report.administrator_sql.join("\n    "),
        ));
    }
}

/// Returns the kinds of difference that occur, each with its names.
fn differing(drift: &SchemaDrift) -> impl Iterator<Item = (&'static str, String)> {
    [
        ("missing functions", &drift.missing_functions),
        ("changed functions", &drift.changed_functions),
        ("missing grants", &drift.missing_grants),
        ("excess grants", &drift.excess_grants),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(what, names)| (what, names.join(", ")))
}

fn script(store: &str, options: &MigrateOptions) -> Result<String> {
    match store.split(':').next() {
        Some("postgres" | "postgresql") => {
            Ok(turno::store::postgres::script_with_settings(options)?)
        }
        Some("sqlite") if !options.settings.is_empty() => Err(Usage::new(
            "setting",
            "setting applies to PostgreSQL only: put the settings of an SQLite store into turno.toml",
        )
        .into()),
        Some("sqlite") => Ok(turno::store::sqlite::script()),
        _ => Err(Usage::new("store", "unknown store: choose the schema to print with --store sqlite: or --store postgres:").into()),
    }
}
