//! `turno doctor`

use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{Cell, Color};
use turno::store::sqlite::SqliteStore;
use turno::store::{Finding, Severity};
use turno_api::admin::DoctorReport;

use crate::cmd::outbox::relay;
use crate::context::Context;
use crate::redact;

pub(crate) async fn run(context: &Context) -> Result<ExitCode> {
    let examined = examine(context).await?;
    let DoctorReport { store, findings } = &examined;
    if context.output.is_json() {
        context.output.json(&examined)?;
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

/// An unavailable store or server is a finding. Only bad usage is an error.
async fn examine(context: &Context) -> Result<DoctorReport> {
    if let Some(remote) = context.remote() {
        let client = remote.client()?;
        return match client.doctor().await {
            Ok(examined) => Ok(examined),
            Err(error) if !error.is_invalid() => Ok(DoctorReport {
                store: client.url().to_owned(),
                findings: vec![problem("server", error.to_string())],
            }),
            Err(error) => Err(turno::Error::from(error).into()),
        };
    }
    if let Some(path) = context.store.strip_prefix("sqlite:")
        && let Some(missing) = SqliteStore::missing(path)?
    {
        return Ok(DoctorReport {
            store: redact::url(&context.store),
            findings: vec![problem("store", missing.to_string())],
        });
    }
    let examined = context
        .with(context.unchecked(), async |turno| {
            Ok(turno.store().diagnose().await?)
        })
        .await;
    let mut findings = match examined {
        Ok(findings) => findings,
        Err(error) => match error.downcast_ref::<turno::Error>() {
            Some(known) if !known.is_invalid() => vec![problem("store", known.to_string())],
            _ => return Err(error),
        },
    };
    if relay::has_unsigned_webhook(&context.outbox)? {
        findings.push(Finding {
            check: "webhook".into(),
            severity: Severity::Warning,
            detail: "events go to a webhook without a signature: the receiver cannot verify the sender. Set a secret \
                     (secret or secret_file in [outbox] of turno.toml, TURNO_WEBHOOK_SECRET, or TURNO_WEBHOOK_SECRET_FILE)"
                .to_owned(),
        });
    }
    Ok(DoctorReport {
        store: redact::url(&context.store),
        findings,
    })
}

fn problem(check: &'static str, detail: String) -> Finding {
    Finding {
        check: check.into(),
        severity: Severity::Problem,
        detail,
    }
}

fn row(finding: &Finding) -> Vec<Cell> {
    let (word, color) = match finding.severity {
        Severity::Ok => ("ok", Color::Green),
        Severity::Warning => ("warning", Color::Yellow),
        _ => ("problem", Color::Red),
    };
    vec![
        Cell::new(&finding.check),
        Cell::new(word).fg(color),
        Cell::new(&finding.detail),
    ]
}
