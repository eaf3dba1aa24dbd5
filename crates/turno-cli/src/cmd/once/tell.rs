//! Messages for a command that was not run, or whose answer was not stored.

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::{Value, json};
use turno::once::{OnceClaim, OnceRun, OnceView};

use crate::context::Context;
use crate::duration::Shown;
use crate::fail::{self, Exit};
use crate::output::time;
use crate::payload::printable;

/// Another run is in flight.
pub(super) fn in_flight(context: &Context, key: &str, run: &OnceRun) -> ExitCode {
    let detail = format!(
        "{key} is in flight{}; its lease expires in {} unless it is extended: retry later, or wait for its answer with --wait",
        by(run.worker.as_deref(), run.began_at),
        Shown(run.remaining)
    );
    fail::problem(
        "in_flight",
        &detail,
        &of(key, run),
        context.output,
        Exit::Busy,
    )
}

/// A key in flight cannot be deleted.
pub(super) fn not_forgotten(context: &Context, view: &OnceView) -> ExitCode {
    let detail = format!(
        "{} is in flight{}: stop that run, or wait until it ends, before you forget the key",
        view.key,
        by(view.worker.as_deref(), view.began_at)
    );
    fail::problem(
        "in_flight",
        &detail,
        &json!(view),
        context.output,
        Exit::Busy,
    )
}

/// A key in flight cannot be resolved.
pub(super) fn still_in_flight(context: &Context, key: &str, run: &OnceRun) -> ExitCode {
    let detail = format!(
        "{key} is in flight{}; its lease expires in {} unless it is extended: wait until the run ends or its lease expires. \
         Nothing was changed",
        by(run.worker.as_deref(), run.began_at),
        Shown(run.remaining)
    );
    fail::problem(
        "in_flight",
        &detail,
        &of(key, run),
        context.output,
        Exit::Busy,
    )
}

/// A key with an answer cannot be resolved.
pub(super) fn answered(context: &Context, key: &str) -> ExitCode {
    let detail = format!(
        "{key} already has an answer: `turno once {key} --status` shows it. Nothing was changed. If the answer is wrong, \
         use `turno once {key} --forget`"
    );
    fail::problem(
        "answered",
        &detail,
        &json!({"key": key}),
        context.output,
        Exit::Failed,
    )
}

/// The outcome of an earlier run is unknown.
pub(super) fn unknown(context: &Context, key: &str, run: &OnceRun) -> ExitCode {
    let detail = format!(
        "{key} is unknown: an earlier run{} ended without an answer, so its outcome is not known. Check its effects; then \
         `turno once {key} --done` if it was done, `turno once {key} --forget` if not, or run the command again with \
         --unknown rerun",
        by(run.worker.as_deref(), run.began_at)
    );
    fail::problem(
        "unknown",
        &detail,
        &of(key, run),
        context.output,
        Exit::Failed,
    )
}

/// The key belongs to another command line.
pub(super) fn mismatch(context: &Context, key: &str) -> ExitCode {
    let detail = format!(
        "{key} belongs to another command, or to the same one with other arguments: use a new key. If the old answer is \
         not needed any more, use `turno once {key} --forget`"
    );
    fail::problem(
        "mismatch",
        &detail,
        &json!({"key": key}),
        context.output,
        Exit::Failed,
    )
}

/// The work is done, and its answer was not stored.
pub(super) fn not_stored(context: &Context, key: &str) -> ExitCode {
    let detail = format!(
        "{key} is done, and its answer was not stored: check its effects. To run the command again, use \
         `turno once {key} --forget`"
    );
    fail::problem(
        "not_stored",
        &detail,
        &json!({"key": key}),
        context.output,
        Exit::Failed,
    )
}

/// Another run has taken over.
pub(super) fn stale(context: &Context, claim: &OnceClaim) -> ExitCode {
    let key = &claim.key;
    let detail = format!(
        "the lease of {key} expired while the command ran, and another run has taken over, or the key was forgotten: the \
         answer of this run was not stored. Repeat the call to get the newer answer; use a longer --lease to survive longer pauses"
    );
    let more = json!({"key": key, "claim": claim});
    fail::problem("stale", &detail, &more, context.output, Exit::Failed)
}

/// The command has run, and its result could not be stored.
pub(super) fn lost_answer(
    context: &Context,
    claim: &OnceClaim,
    exit_code: u8,
    error: &turno::Error,
) -> ExitCode {
    let key = &claim.key;
    let detail = format!(
        "the command ended with exit code {exit_code}, but its answer could not be stored ({error}): {key} becomes unknown when \
         its lease expires; `turno once {key} --status` shows its state"
    );
    let more = json!({"key": key, "claim": claim, "exit_code": exit_code});
    fail::problem("not_stored", &detail, &more, context.output, Exit::Failed)
}

fn of(key: &str, run: &OnceRun) -> Value {
    let mut more = json!(run);
    more["key"] = key.into();
    more
}

fn by(worker: Option<&str>, began_at: Timestamp) -> String {
    match worker {
        Some(worker) => format!(" (by {}, since {})", printable(worker), time(began_at)),
        None => format!(" (since {})", time(began_at)),
    }
}
