//! `turno outbox discard`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno_api::outbox;
use uuid::Uuid;

use super::table::TableArgs;
use crate::context::Context;

/// Discard dead and blocked events: never publish them
#[derive(Debug, Args)]
#[command(after_help = "\
Events that were blocked behind a discarded one continue; parked ones wait until they are requeued.
Ids that are not of dead or blocked events are ignored.
The user is stored in the history and, as long as dispatched events are kept, with the event id.
With --table, pending and scheduled events can be discarded, too. Their rows stay in the table,
marked as processed, with an error that contains user and reason.")]
pub(crate) struct DiscardArgs {
    /// Ids, as `turno outbox list --state dead` shows them
    #[arg(value_name = "ID", required = true, value_parser = super::id)]
    id: Vec<Uuid>,

    #[command(flatten)]
    table: TableArgs,

    /// Reason, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// User, for the history [default: user of turno.toml, or the system user]
    #[arg(
        long,
        alias = "by",
        env = "TURNO_USER",
        hide_env_values = true,
        value_name = "NAME"
    )]
    user: Option<String>,
}

pub(crate) async fn run(context: &Context, args: DiscardArgs) -> Result<ExitCode> {
    let user = args
        .user
        .or_else(|| context.settings.user.clone())
        .unwrap_or_else(login);
    let discarded = context
        .with_store(async |turno| {
            if let Some(table) = args.table.table {
                let mut table = turno.outbox_table(table);
                if let Some(reason) = args.reason {
                    table = table.reason(reason);
                }
                return Ok(table.discard(&args.id, &user).await?);
            }
            let mut outbox = turno.outbox();
            if let Some(reason) = args.reason {
                outbox = outbox.reason(reason);
            }
            Ok(outbox.discard(&args.id, &user).await?)
        })
        .await?;
    if context.output.is_json() {
        context.output.json(&outbox::Discarded { discarded })?;
    } else {
        context.output.line(&format!("discarded: {discarded}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of the system's user.
pub(in crate::cmd) fn login() -> String {
    let set = |name| {
        std::env::var(name)
            .ok()
            .filter(|value: &String| !value.is_empty())
    };
    set("USER")
        .or_else(|| set("LOGNAME"))
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}
