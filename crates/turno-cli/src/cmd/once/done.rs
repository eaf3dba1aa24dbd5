//! `turno once --done`

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use turno::once::OnceResolved;

use super::answer::{Answer, Output};
use super::forget::DecisionArgs;
use super::{status, tell};
use crate::context::Context;

/// Answer of the work, if the operator knows it.
#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// Done: answer for later calls, as JSON [default: none, only that the work is done]
    #[arg(long, value_name = "JSON", conflicts_with_all = super::NO_DONE, allow_hyphen_values = true)]
    answer: Option<String>,

    /// Done: exit code of the command, for a key of a command; its output stays unknown
    #[arg(long, value_name = "CODE", conflicts_with_all = super::NO_DONE, conflicts_with = "answer")]
    exit_code: Option<u8>,
}

impl AnswerArgs {
    fn text(self) -> Result<Option<String>> {
        let Some(exit_code) = self.exit_code else {
            return Ok(self.answer);
        };
        let answer = Answer {
            exit_code,
            output_bytes: 0,
            output: Some(Output::default()),
        };
        Ok(Some(serde_json::to_string(&answer.stored())?))
    }
}

pub(super) async fn run(
    context: &Context,
    key: &str,
    answer: AnswerArgs,
    because: DecisionArgs,
) -> Result<ExitCode> {
    let answer = answer.text()?;
    // With the keys of answers: the answer is sealed as those of runs are.
    let resolved = context
        .with(super::settings(context)?, async |turno| {
            Ok(because.once(turno, key).resolve(answer.as_deref()).await?)
        })
        .await?;
    match resolved {
        OnceResolved::Resolved if context.output.is_json() => {
            context.output.json(&json!({"key": key, "state": "done"}))?;
        }
        OnceResolved::Resolved => context.output.line(&format!("done: {key}"))?,
        OnceResolved::InFlight(run) => return Ok(tell::still_in_flight(context, key, &run)),
        OnceResolved::Answered => return Ok(tell::answered(context, key)),
        OnceResolved::NotFound => return Err(status::not_known(key).into()),
    }
    Ok(ExitCode::SUCCESS)
}
