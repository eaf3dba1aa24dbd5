//! `turno token revoke`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::fail::NotFound;

/// Revoke an access token
#[derive(Debug, Args)]
#[command(after_help = "\
Running servers accept it for up to five more seconds. It stays in the list, as revoked.")]
pub(crate) struct RevokeArgs {
    /// Id of the token, as `turno token list` shows it
    id: String,
}

pub(crate) async fn run(context: &Context, args: RevokeArgs) -> Result<ExitCode> {
    let id = id_of(&args.id);
    let revoked = context
        .with_store(async |turno| Ok(turno.access_revoke(id).await?))
        .await?;
    if !revoked {
        return Err(NotFound(format!(
            "there is no active access token with the id {id}: see `turno token list`"
        ))
        .into());
    }
    if context.output.is_json() {
        context.output.json(&json!({"revoked": id}))?;
    } else {
        context.output.line(&format!("revoked {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the id of a token. The user may paste the whole token; its secret is ignored.
fn id_of(text: &str) -> &str {
    text.strip_prefix("turno_")
        .and_then(|rest| rest.split_once('_'))
        .map_or(text, |(id, _)| id)
}
