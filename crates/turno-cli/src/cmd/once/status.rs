//! `turno once --status`

use std::process::ExitCode;

use anyhow::Result;
use turno::Migrate;
use turno::once::{OnceState, OnceView};

use super::answer::{Answer, Output};
use crate::context::Context;
use crate::fail::NotFound;
use crate::output::time;
use crate::payload::{self, printable};

pub(super) async fn run(context: &Context, key: &str) -> Result<ExitCode> {
    let mut settings = super::settings(context)?;
    // Reading does not create a store.
    settings.migrate = Migrate::Never;
    let view = context
        .with(settings, async |turno| Ok(turno.once(key).status().await?))
        .await?;
    let view = view.ok_or_else(|| not_known(key))?;
    if context.output.is_json() {
        context.output.json(&view)?;
    } else {
        show(context, &view)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The error for a key that the store does not know.
pub(super) fn not_known(key: &str) -> NotFound {
    NotFound(format!(
        "there is no key {key}: no caller has begun it, it was given back or forgotten, or its answer has expired"
    ))
}

fn show(context: &Context, view: &OnceView) -> Result<()> {
    let until = match view.state {
        OnceState::InFlight => "lease ends",
        OnceState::Done => "kept until",
        OnceState::Unknown => "unknown since",
    };
    let text = |text: &Option<String>| text.as_deref().map(printable);
    // The answer may be a command's, or come from another interface.
    let answer = view.answer.as_deref();
    let ours = answer.and_then(|text| Answer::read(text).ok());
    let answered = match (view.state, &ours, answer) {
        (OnceState::Done, Some(answer), _) => Some(answer.described()),
        (OnceState::Done, None, None) => Some("not stored".to_owned()),
        _ => None,
    };
    context.output.pairs(&[
        ("key", Some(view.key.clone())),
        ("state", Some(view.state.to_string())),
        ("claim", Some(view.claim.to_string())),
        ("attempt", Some(view.attempt.to_string())),
        ("worker", text(&view.worker)),
        ("scope", text(&view.scope)),
        ("fingerprint", text(&view.fingerprint)),
        ("began", Some(time(view.began_at))),
        (until, Some(time(view.expires_at))),
        (
            "late answers",
            (view.late > 0).then(|| view.late.to_string()),
        ),
        (
            "exit code",
            ours.as_ref().map(|answer| answer.exit_code.to_string()),
        ),
        ("answer", answered),
    ])?;
    match (ours, answer) {
        (Some(answer), _) => match answer.output {
            Some(output) => printed(context, &output),
            None => Ok(()),
        },
        (None, Some(text)) => {
            context.output.line("")?;
            context.output.line(&payload::pretty(text))
        }
        (None, None) => Ok(()),
    }
}

/// Prints the output of the command, without control characters.
fn printed(context: &Context, output: &Output) -> Result<()> {
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if bytes.is_empty() {
            continue;
        }
        context.output.line(&format!("\n{name}"))?;
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                for line in text.lines() {
                    context.output.line(&format!("  {}", printable(line)))?;
                }
            }
            Err(_) => context
                .output
                .line("  (binary; --json prints it as base64)")?,
        }
    }
    Ok(())
}
