//! `turno lock history`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::history::Part;

use crate::cmd::history::{PageArgs, show};
use crate::context::Context;

/// Show the history of locks, newest first, beginning with the held locks
#[derive(Debug, Args)]
#[command(
    after_help = "`turno history` also shows operator actions on queues, events and once keys."
)]
pub(crate) struct HistoryArgs {
    /// Resource [default: all]
    resource: Option<String>,

    #[command(flatten)]
    page: PageArgs,
}

pub(crate) async fn run(context: &Context, args: HistoryArgs) -> Result<ExitCode> {
    show(context, args.page.of(Some(Part::Lock), args.resource)).await
}
