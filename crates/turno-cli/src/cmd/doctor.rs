//! `turno doctor`

use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{Cell, Color};
use serde_json::json;
use turno::store::{Finding, Severity};

use crate::context::Context;
use crate::redact;

pub(crate) async fn run(context: &Context) -> Result<ExitCode> {
    let findings = examine(context).await?;
    let store = redact::url(&context.store);
    if context.output.is_json() {
        context
            .output
            .json(&json!({"store": store, "findings": findings}))?;
    } else {
        context.output.line(&format!("{store}\n"))?;
        context.output.table(
            &["CHECK", "", "FINDING"],
            findings.iter().map(row).collect(),
        )?;
    }
    let healthy = findings
        .iter()
        .all(|finding| finding.severity < Severity::Problem);
    Ok(if healthy {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A store that cannot be reached is itself a finding; only a wrong question is an error.
async fn examine(context: &Context) -> Result<Vec<Finding>> {
    let examined = context
        .with(context.unchecked(), async |turno| {
            Ok(turno.store().diagnose().await?)
        })
        .await;
    match examined {
        Ok(findings) => Ok(findings),
        Err(error) => match error.downcast_ref::<turno::Error>() {
            Some(known) if !known.is_invalid() => Ok(vec![Finding {
                check: "store".into(),
                severity: Severity::Problem,
                detail: known.to_string(),
            }]),
            _ => Err(error),
        },
    }
}

fn row(finding: &Finding) -> Vec<Cell> {
    let (word, color) = match finding.severity {
        Severity::Ok => ("ok", Color::Green),
        Severity::Warning => ("warning", Color::Yellow),
        Severity::Problem => ("problem", Color::Red),
    };
    vec![
        Cell::new(&finding.check),
        Cell::new(word).fg(color),
        Cell::new(&finding.detail),
    ]
}
