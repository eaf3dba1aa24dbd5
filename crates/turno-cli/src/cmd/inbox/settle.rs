//! Claims as arguments of the command line, and the outcome of settling them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::inbox::{ClaimId, Inbox, Settled};

use crate::context::Context;

/// A valid name, for calls without a queue.
const ANY: &str = "-";

#[derive(Debug, Args)]
pub(super) struct ClaimsArgs {
    /// Claims, as `turno inbox claim` printed them
    #[arg(value_name = "CLAIM", required = true)]
    pub(super) claims: Vec<ClaimId>,

    /// Queue of the items; a server requires it if the access token is limited to a prefix
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
}

impl ClaimsArgs {
    /// Settles the claims. A claim identifies its item. The name of the queue is only for servers, and for waking workers of this
    /// process, which has none.
    pub(super) async fn settle(
        &self,
        context: &Context,
        settle: impl AsyncFnOnce(Inbox) -> turno::Result<Settled>,
    ) -> Result<Settled> {
        let queue = self.queue.as_deref();
        context
            .with_queue(queue, async |turno| {
                Ok(settle(turno.inbox(queue.unwrap_or(ANY))).await?)
            })
            .await
    }
}

/// Prints how many claims were settled, and the stale ones: an outcome of the call, but a failure of the command.
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
