//! `turno lock status`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::lock::{LockHolder, LockStatus};
use turno_api::lock;

use crate::context::Context;
use crate::duration::Shown;
use crate::output::time;

/// Show the holders of a resource
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 0 whether the resource is held or not.")]
pub(crate) struct StatusArgs {
    /// Resource
    resource: String,
}

pub(crate) async fn run(context: &Context, args: StatusArgs) -> Result<ExitCode> {
    let status = context
        .read_store(async |turno| Ok(turno.lock(&args.resource).status().await?))
        .await?;
    if context.output.is_json() {
        context.output.json(&lock::Status::from(status))?;
    } else {
        print(context, &status)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(context: &Context, status: &LockStatus) -> Result<()> {
    if status.holders.is_empty() {
        return context.output.line(&format!(
            "{} is free; waiting: {}",
            status.resource, status.waiters
        ));
    }
    context.output.line(&format!(
        "{} is locked; waiting: {}",
        status.resource, status.waiters
    ))?;
    for holder in &status.holders {
        context.output.line("")?;
        print_holder(context, holder)?;
    }
    Ok(())
}

fn print_holder(context: &Context, holder: &LockHolder) -> Result<()> {
    let who = &holder.attribution;
    context.output.pairs(&[
        ("mode", Some(holder.mode.clone())),
        ("token", Some(holder.token.to_string())),
        ("owner", Some(holder.owner.clone())),
        ("user", who.user.clone()),
        ("service", who.service.clone()),
        ("description", who.description.clone()),
        ("host", who.host.clone()),
        ("pid", who.pid.map(|pid| pid.to_string())),
        ("holds", Some(holder.holds.to_string())),
        ("since", Some(time(holder.acquired_at))),
        (
            "expires",
            Some(format!(
                "in {} ({})",
                Shown(holder.remaining),
                time(holder.expires_at)
            )),
        ),
    ])
}
