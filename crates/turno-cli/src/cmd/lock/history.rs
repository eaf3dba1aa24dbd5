//! `turno lock history`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::history::Part;

use crate::cmd::history::{PageArgs, show};
use crate::context::Context;

/// Show the audit trail, newest first; it begins with what is held now
#[derive(Debug, Args)]
#[command(after_help = "`turno history` has what people did to queues, events and once keys, too.")]
pub(crate) struct HistoryArgs {
    /// Of one resource; of all, if none is named
    resource: Option<String>,

    #[command(flatten)]
    page: PageArgs,
}

pub(crate) async fn run(context: &Context, args: HistoryArgs) -> Result<ExitCode> {
    show(context, args.page.of(Some(Part::Lock), args.resource)).await
}
