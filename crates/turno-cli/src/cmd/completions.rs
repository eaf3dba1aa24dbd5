//! `turno completions`

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::context::Context;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
For bash: turno completions bash > ~/.local/share/bash-completion/completions/turno")]
pub(crate) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(context: &Context, args: CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "turno", &mut script);
    context.output.raw(&script)?;
    Ok(ExitCode::SUCCESS)
}
