//! `turno once --forget`

use std::process::ExitCode;

use anyhow::Result;
use turno_client::wire;

use super::tell;
use crate::context::Context;

pub(super) async fn run(context: &Context, key: &str) -> Result<ExitCode> {
    // Without the keys of answers: whoever has lost them must be able to forget.
    let (forgotten, left) = context
        .with_store(async |turno| {
            let forgotten = turno.once_forget(key).await?;
            let left = match forgotten {
                true => None,
                false => turno.once_status(key).await?,
            };
            Ok((forgotten, left))
        })
        .await?;
    if let Some(view) = left {
        return Ok(tell::not_forgotten(context, &view));
    }
    if context.output.is_json() {
        context.output.json(&wire::Forgotten { forgotten })?;
    } else if forgotten {
        context.output.line(&format!("forgotten: {key}"))?;
    } else {
        context.output.line(&format!("nothing is known of {key}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
