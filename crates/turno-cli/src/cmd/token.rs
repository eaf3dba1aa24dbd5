//! `turno token …`: the access tokens of callers of `turno serve`.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::context::Context;

/// Commands for access tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Create(create::CreateArgs),
    List(list::ListArgs),
    Revoke(revoke::RevokeArgs),
}

pub(crate) async fn run(context: &Context, verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Create(args) => create::run(context, args).await,
        Verb::List(args) => list::run(context, args).await,
        Verb::Revoke(args) => revoke::run(context, args).await,
    }
}
