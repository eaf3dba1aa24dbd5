//! `turno once`

mod answer;
mod capture;
mod done;
mod find;
mod forget;
mod fresh;
mod list;
mod replay;
mod run;
mod status;
mod tell;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use turno::Settings;

use crate::answer_keys;
use crate::context::Context;
use crate::fail::Usage;

/// Modes without a run: its options conflict with them. (Not `requires`: clap waives that for an excluded argument.)
const NO_RUN: [&str; 5] = ["status", "forget", "done", "list", "find"];
/// Modes without a list.
const NO_LIST: [&str; 5] = ["status", "forget", "done", "command", "find"];
/// Modes without a decision: only `--forget` and `--done` have a reason.
const NO_DECISION: [&str; 4] = ["status", "list", "command", "find"];
/// Modes without an answer: only `--done` has one.
const NO_DONE: [&str; 5] = ["status", "forget", "list", "command", "find"];

/// Run a command once per key, and replay its output for later calls
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["status", "forget", "done", "list", "find", "command"]),
    override_usage = "\
turno once [OPTIONS] <KEY> -- <COMMAND>...
       turno once <KEY> --status
       turno once <KEY> --forget [--reason <TEXT>] [--user <NAME>]
       turno once <KEY> --done [--answer <JSON>] [--reason <TEXT>] [--user <NAME>]
       turno once --list [--state <STATE>] [--prefix <TEXT>] [--limit <N>] [--after <KEY>]
       turno once --find --routes <FILE> --route <NAME> --key <KEY> [--header <NAME: VALUE>]...",
    after_help = "\
The first call runs the command. Its output is printed as it arrives, and stored with its exit code
when it ends. Later calls with the same key and the same command line print the stored output, byte
for byte, and do not run the command. Only the command line is compared: standard input, environment
and folder are not. Background processes of the command are not waited for. A command that was not
found or cannot run leaves the key free.
The environment of the command has TURNO_ONCE_KEY, TURNO_ONCE_TOKEN and TURNO_ONCE_ATTEMPT. The
token is larger than the tokens of all earlier runs. Above attempt 1, the outcome of an earlier run
is unknown.

The key becomes unknown if a signal ends the command, if the command fails after turno once sent a
signal on to it, or if turno once is killed, and the command with it. Calls with an unknown key are
rejected until an operator has checked the effects and decides: --done (the work was done), --forget
(it was not), or --unknown rerun. --done is rejected for a key that is in flight or has an answer.
After --done, calls exit with the code of --exit-code; without it, with 1 and a message that the
work is done.

Exits with the code of the command (128 + N if signal N ended it), also for a replay; with 75 if the
key is in flight; with 1 if the key is unknown, belongs to another command, or another run has taken
over; with 127 or 126 if the command was not found or cannot run.
With --json, the last line on standard error describes the run: {\"claim\", …}, {\"replay\", …}, or
{\"code\", …} with in_flight, mismatch, unknown or stale. --status, --forget, --done and --list print
JSON on standard output.

Answers are encrypted with the keys in TURNO_ANSWER_KEYS (ID:BASE64, …), or in the file that
answer_keys_file in [once] of turno.toml names."
)]
pub(crate) struct OnceArgs {
    /// Once key of the work, such as pago/77
    #[arg(value_name = "KEY", required_unless_present_any = ["list", "find"])]
    key: Option<String>,

    #[command(flatten)]
    run: run::RunArgs,

    /// Show the state of the key and its answer
    #[arg(long)]
    status: bool,

    /// Delete the key, unless it is in flight: the next call runs the command
    #[arg(long)]
    forget: bool,

    /// Resolve an unknown key whose work was done: the next call does not run the command
    #[arg(long)]
    done: bool,

    /// List the keys, sorted
    #[arg(long, conflicts_with = "key")]
    list: bool,

    /// Show the key of a request that came through a gate, by the key that its client sent
    #[arg(long, conflicts_with = "key")]
    find: bool,

    #[command(flatten)]
    request: find::FindArgs,

    #[command(flatten)]
    because: forget::DecisionArgs,

    #[command(flatten)]
    answer: done::AnswerArgs,

    #[command(flatten)]
    page: list::PageArgs,

    /// Command and its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, args: OnceArgs) -> Result<ExitCode> {
    if args.list {
        return list::run(context, args.page).await;
    }
    if args.find {
        return find::run(context, args.request).await;
    }
    let Some(key) = args.key else {
        bail!("the key is missing");
    };
    if args.status {
        status::run(context, &key).await
    } else if args.forget {
        forget::run(context, &key, args.because).await
    } else if args.done {
        done::run(context, &key, args.answer, args.because).await
    } else {
        run::run(context, &key, args.run, &args.command).await
    }
}

/// Returns the settings of the file, with the keys that encrypt and decrypt answers.
fn settings(context: &Context) -> Result<Settings> {
    let answer_keys = answer_keys::read(&context.once)?;
    if answer_keys.is_some() && context.remote().is_some() {
        let detail = "a server encrypts answers with its own keys: give the keys to `turno serve`, not to this command";
        return Err(Usage::new(answer_keys::VARIABLE, detail).into());
    }
    let mut settings = context.settings.clone();
    settings.answer_keys = answer_keys;
    Ok(settings)
}
