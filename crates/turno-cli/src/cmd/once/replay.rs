//! A replay: the work is done, and its stored answer is printed again.

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use tokio::io::AsyncWrite;
use turno::once;

use super::answer::{Answer, Output};
use super::{capture, tell};
use crate::cmd::child::stopped_by;
use crate::context::Context;
use crate::signals::Signals;

/// Whether a message says that the answer is a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Print,
    Omit,
}

pub(super) async fn run(
    context: &Context,
    key: &str,
    answer: &once::Answer,
    notice: Notice,
    signals: &mut Signals,
) -> Result<ExitCode> {
    let Some(text) = answer.text() else {
        return Ok(tell::not_stored(context, key));
    };
    // The answer under this key is not that of a command.
    let Ok(answer) = Answer::read(text) else {
        return Ok(tell::mismatch(context, key));
    };
    let is_json = context.output.is_json();
    if notice == Notice::Print && !is_json {
        context.output.note(&format!(
            "replayed: {key} was done before; this is its stored answer: {}",
            answer.described()
        ));
    }
    if let Some(output) = &answer.output {
        tokio::select! {
            printed = print(output) => printed?,
            signal = signals.next() => return Ok(stopped_by(signal)),
        }
    }
    if notice == Notice::Print && is_json {
        tell_json(context, &answer);
    }
    Ok(ExitCode::from(answer.exit_code))
}

/// Prints the replay as JSON, without the output, which was just printed.
fn tell_json(context: &Context, answer: &Answer) {
    let stderr = answer.output.as_ref().map(|output| &output.stderr);
    if stderr.is_some_and(|bytes| bytes.last().is_some_and(|last| *last != b'\n')) {
        context.output.note("");
    }
    let replay = json!({
        "exit_code": answer.exit_code,
        "output_bytes": answer.output_bytes,
        "output_kept": answer.output.is_some(),
    });
    context
        .output
        .note(&json!({ "replay": replay }).to_string());
}

async fn print(output: &Output) -> io::Result<()> {
    let (out, err) = tokio::join!(
        to(tokio::io::stdout(), &output.stdout),
        to(tokio::io::stderr(), &output.stderr),
    );
    out.and(err)
}

async fn to(mut stream: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    match capture::pass(&mut stream, bytes).await {
        // The reader of our output has closed the pipe. The exit code is still that of the work.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        passed => passed,
    }
}
