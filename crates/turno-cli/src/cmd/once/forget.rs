//! `turno once --forget`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use turno::Turno;
use turno::once::Once;
use turno_api::once;

use super::tell;
use crate::context::Context;

/// User and reason of a decision about a key.
#[derive(Debug, Args)]
pub(super) struct DecisionArgs {
    /// Forget, done: reason, for the history
    #[arg(long, value_name = "TEXT", conflicts_with_all = super::NO_DECISION)]
    pub(super) reason: Option<String>,

    /// Forget, done: user, for the history [default: user of turno.toml]
    // What the environment says is said of every run, so nothing excludes it.
    #[arg(long, env = "TURNO_USER", hide_env_values = true, value_name = "NAME")]
    pub(super) user: Option<String>,
}

impl DecisionArgs {
    /// The key, with the user and the reason of the operator.
    pub(super) fn once(self, turno: &Turno, key: &str) -> Once {
        let mut once = turno.once(key);
        if let Some(user) = self.user {
            once = once.user(user);
        }
        if let Some(reason) = self.reason {
            once = once.reason(reason);
        }
        once
    }
}

pub(super) async fn run(context: &Context, key: &str, args: DecisionArgs) -> Result<ExitCode> {
    // Without the encryption keys of answers: a key must be deletable even if they are lost.
    let (forgotten, left) = context
        .with_store(async |turno| {
            let forgotten = args.once(turno, key).forget().await?;
            let left = match forgotten {
                true => None,
                false => turno.once(key).status().await?,
            };
            Ok((forgotten, left))
        })
        .await?;
    if let Some(view) = left {
        return Ok(tell::not_forgotten(context, &view));
    }
    if context.output.is_json() {
        context.output.json(&once::Forgotten { forgotten })?;
    } else if forgotten {
        context.output.line(&format!("forgotten: {key}"))?;
    } else {
        context.output.line(&format!("there is no key {key}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
