//! `turno lock list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use turno::lock::{LockHolder, LockList};
use turno_api::{lock, page};

use crate::context::Context;
use crate::duration::Shown;
use crate::output::{number, optional, page};

/// List the held locks, ordered by resource
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only resources with this prefix, such as PRESTAMO/
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,

    /// Maximum number of locks, up to 1000
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only resources after this one: the last of the previous page
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    after: String,
}

pub(crate) async fn run(context: &Context, args: ListArgs) -> Result<ExitCode> {
    let limit = page(args.limit);
    let ask = LockList {
        prefix: args.prefix,
        after: args.after,
        limit,
    };
    let locks = context
        .read_store(async |turno| Ok(turno.lock_list(ask).await?))
        .await?;
    if context.output.is_json() {
        let next = page::next(&locks, limit, |lock| lock.resource.clone());
        context.output.json(&lock::Locks { locks, next })?;
    } else if locks.is_empty() {
        context.output.line("no lock is held")?;
    } else {
        let header = [
            "RESOURCE",
            "MODE",
            "LEFT",
            "USER",
            "SERVICE",
            "DESCRIPTION",
            "WAITING",
            "TOKEN",
        ];
        context
            .output
            .table(&header, locks.iter().map(row).collect())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(lock: &LockHolder) -> Vec<Cell> {
    let who = &lock.attribution;
    vec![
        Cell::new(&lock.resource),
        Cell::new(&lock.mode),
        number(Shown(lock.remaining)),
        optional(who.user.as_deref()),
        optional(who.service.as_deref()),
        optional(who.description.as_deref()),
        number(lock.waiters),
        number(lock.token),
    ]
}
