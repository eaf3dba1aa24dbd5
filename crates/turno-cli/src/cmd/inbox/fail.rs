//! `turno inbox fail`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use turno::inbox::{Again, Failure};

use super::settle::{ClaimsArgs, tell};
use crate::context::Context;
use crate::duration;

/// Report that attempts have failed
#[derive(Debug, Args)]
#[command(after_help = "\
An item is retried later; without attempts left, it becomes a failed item. Its errors are kept.
Exits with 1 if a claim is stale.")]
pub(crate) struct FailArgs {
    #[command(flatten)]
    claims: ClaimsArgs,

    /// Error message
    #[arg(long, value_name = "TEXT")]
    error: String,

    /// Time before the next attempt [default: a backoff that grows with each attempt]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    retry_in: Option<Duration>,

    /// Do not retry: the item becomes a failed item at once
    #[arg(long = "final", conflicts_with = "retry_in")]
    last: bool,
}

pub(crate) async fn run(context: &Context, args: FailArgs) -> Result<ExitCode> {
    let again = if args.last {
        Again::Never
    } else {
        Again::Retry
    };
    let failures: Vec<Failure> = args
        .claims
        .claims
        .iter()
        .map(|claim| Failure {
            claim: *claim,
            error: args.error.clone(),
            retry_in: args.retry_in,
            again,
        })
        .collect();
    let claims = &args.claims;
    let settled = claims.settle(context, async |inbox| inbox.fail(&failures).await);
    let settled = settled.await?;
    tell(context, "failed", &settled)
}
