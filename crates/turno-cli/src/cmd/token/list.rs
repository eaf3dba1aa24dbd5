//! `turno token list`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use turno::access::AccessView;

use crate::context::Context;
use crate::output::{optional, time};

/// List the access tokens, newest first, without their secrets
#[derive(Debug, Args)]
pub(crate) struct ListArgs {}

pub(crate) async fn run(context: &Context, _: ListArgs) -> Result<ExitCode> {
    let tokens = context
        .read_store(async |turno| Ok(turno.access_list().await?))
        .await?;
    if context.output.is_json() {
        context.output.json(&json!({"tokens": tokens}))?;
    } else if tokens.is_empty() {
        context.output.line(
            "there are no access tokens: a server is open to callers on its own machine only",
        )?;
    } else {
        let header = [
            "ID", "NAME", "ROLE", "PREFIX", "STATE", "CREATED", "EXPIRES", "REVOKED",
        ];
        context
            .output
            .table(&header, tokens.iter().map(row).collect())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(token: &AccessView) -> Vec<Cell> {
    let prefix = Some(&token.prefix).filter(|prefix| !prefix.is_empty());
    vec![
        Cell::new(&token.id),
        Cell::new(&token.name),
        Cell::new(token.role),
        optional(prefix),
        Cell::new(token.state),
        Cell::new(time(token.created_at)),
        optional(token.expires_at.map(time)),
        optional(token.revoked_at.map(time)),
    ]
}
