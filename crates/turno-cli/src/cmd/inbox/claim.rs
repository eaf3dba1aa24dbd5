//! `turno inbox claim`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno::inbox::{ClaimBuilder, ClaimId, ClaimedItem, Inbox};
use turno_api::inbox;

use crate::context::Context;
use crate::output::time;
use crate::{BUSY, duration, payload};

/// Claim items to process
#[derive(Debug, Args)]
#[command(after_help = "\
Prints each item with its claim, for `complete`, `fail`, `extend` and `give-back`.
An item that is not settled before its lease expires can be claimed again.
Exits with 75 if no item can be claimed.")]
pub(crate) struct ClaimArgs {
    /// Queue
    queue: String,

    /// Maximum number of items, up to 10000
    #[arg(long, value_name = "N", default_value_t = 1)]
    limit: u32,

    /// Lease of the claims, unless they are extended [default: 30s]
    #[arg(long, env = "TURNO_LEASE", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    lease: Option<Duration>,

    /// Name of the worker, for operators [default: this host and process]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,

    /// Maximum time to wait for the first item [default: do not wait]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    wait: Option<Duration>,
}

impl ClaimArgs {
    fn ask(&self, inbox: &Inbox, lease: Duration) -> ClaimBuilder {
        let mut claim = inbox
            .claim()
            .limit(self.limit)
            .lease(self.lease.unwrap_or(lease))
            .wait(self.wait.unwrap_or_default());
        if let Some(worker) = &self.worker {
            claim = claim.worker(worker);
        }
        claim
    }
}

pub(crate) async fn run(context: &Context, args: ClaimArgs) -> Result<ExitCode> {
    context
        .with_store(async |turno| {
            let inbox = turno.inbox(&args.queue);
            let items = args.ask(&inbox, context.inbox_lease).take().await?;
            if let Err(error) = print(context, inbox.queue(), &items) {
                // The claims could not be printed, so nothing can settle them.
                let claims: Vec<ClaimId> = items.iter().map(|item| item.claim).collect();
                inbox.give_back(&claims).await?;
                return Err(error);
            }
            Ok(if items.is_empty() {
                ExitCode::from(BUSY)
            } else {
                ExitCode::SUCCESS
            })
        })
        .await
}

fn print(context: &Context, queue: &str, items: &[ClaimedItem]) -> Result<()> {
    if context.output.is_json() {
        let items = items.to_vec();
        return context.output.json(&inbox::Claimed { items });
    }
    if items.is_empty() {
        context.output.note(&format!("{queue}: nothing to do"));
    }
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            context.output.line("")?;
        }
        show(context, item)?;
    }
    Ok(())
}

fn show(context: &Context, item: &ClaimedItem) -> Result<()> {
    context.output.pairs(&[
        ("claim", Some(item.claim.to_string())),
        (
            "attempt",
            Some(format!("{} of {}", item.attempt, item.max_attempts)),
        ),
        ("payload", Some(payload::shown(&item.payload))),
        ("key", item.key.clone()),
        ("group", item.group.clone()),
        ("priority", Some(item.priority.to_string())),
        ("pushed", Some(time(item.pushed_at))),
        ("expires", Some(time(item.expires_at))),
    ])
}
