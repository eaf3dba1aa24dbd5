//! `turno lock break`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use turno::Token;
use turno::lock::BreakOutcome;

use crate::context::Context;

/// Break a lock: take it from its holder
#[derive(Debug, Args)]
#[command(after_help = "\
For an operator who knows that the holder is gone. The token identifies the holder: a lock that
another caller has acquired since is not broken. Exits with 1 if the token does not hold the lock.")]
pub(crate) struct BreakArgs {
    /// Resource
    resource: String,

    /// Fencing token of the holder, as `turno lock status` shows it
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    token: i64,

    /// Reason, for the history
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// User, for the history
    #[arg(long, env = "TURNO_USER", hide_env_values = true, value_name = "NAME")]
    user: Option<String>,
}

pub(crate) async fn run(context: &Context, args: BreakArgs) -> Result<ExitCode> {
    let user = args.user.or_else(|| context.settings.user.clone());
    let token = Token(args.token);
    let outcome = context
        .with_store(async |turno| {
            let mut lock = turno.lock(&args.resource);
            if let Some(user) = user {
                lock = lock.user(user);
            }
            Ok(lock.force_break(token, &args.reason).await?)
        })
        .await?;
    let (code, exit, detail) = match outcome {
        BreakOutcome::Broken => (
            "broken",
            ExitCode::SUCCESS,
            format!("{} was broken", args.resource),
        ),
        BreakOutcome::NotHeld => (
            "not_held",
            ExitCode::FAILURE,
            format!(
                "token {token} does not hold {}: `turno lock status {}` shows the holder",
                args.resource, args.resource
            ),
        ),
    };
    if context.output.is_json() {
        let object =
            json!({"code": code, "resource": args.resource, "token": token, "detail": detail});
        context.output.json(&object)?;
    } else if outcome == BreakOutcome::Broken {
        context.output.line(&detail)?;
    } else {
        context.output.note(&detail);
    }
    Ok(exit)
}
