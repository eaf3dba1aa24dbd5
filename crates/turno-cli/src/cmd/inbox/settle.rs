//! Claims as they are named on the command line, and what became of them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::Turno;
use turno::inbox::{ClaimId, Inbox, Settled};

use crate::context::Context;

#[derive(Debug, Args)]
pub(super) struct ClaimsArgs {
    /// The claims, as `turno inbox claim` printed them
    #[arg(value_name = "CLAIM", required = true)]
    pub(super) claims: Vec<ClaimId>,
}

/// Where claims are settled. A claim names its item; the queue's name is only there to wake workers of this very
/// process, and it has none.
pub(super) fn inbox(turno: &Turno) -> Inbox {
    turno.inbox("")
}

/// Tells how many were settled, and which were too late: an outcome, and yet a failure of the command.
pub(super) fn tell(context: &Context, what: &str, settled: &Settled) -> Result<ExitCode> {
    if context.output.is_json() {
        context.output.json(settled)?;
    } else {
        for claim in &settled.stale {
            context.output.note(&format!(
                "the claim {claim} is stale: it has ended, or its item was settled or reset. Nothing was changed"
            ));
        }
        context.output.line(&format!("{what}: {}", settled.done))?;
    }
    Ok(if settled.stale.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
