//! `turno lock …`

mod acquire;
pub(crate) mod ask;
mod force;
mod history;
mod lease;
mod list;
mod release;
mod renew;
mod status;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;

/// Commands for locks.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Acquire(acquire::AcquireArgs),
    Release(release::ReleaseArgs),
    Renew(renew::RenewArgs),
    Status(status::StatusArgs),
    List(list::ListArgs),
    History(history::HistoryArgs),
    Break(force::BreakArgs),
}

pub(crate) async fn run(context: &Context, verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Acquire(args) => acquire::run(context, args).await,
        Verb::Release(args) => release::run(context, args).await,
        Verb::Renew(args) => renew::run(context, args).await,
        Verb::Status(args) => status::run(context, args).await,
        Verb::List(args) => list::run(context, args).await,
        Verb::History(args) => history::run(context, args).await,
        Verb::Break(args) => force::run(context, args).await,
    }
}
