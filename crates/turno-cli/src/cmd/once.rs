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

/// Without a run there is nothing to say of one. (Not `requires`: that is waived for what is excluded anyway.)
const NO_RUN: [&str; 5] = ["status", "forget", "done", "list", "find"];
/// And without a list nothing of that.
const NO_LIST: [&str; 5] = ["status", "forget", "done", "command", "find"];
/// A reason belongs to a decision: to forget, or that it was done.
const NO_DECISION: [&str; 4] = ["status", "list", "command", "find"];
/// An answer belongs to work that was done.
const NO_DONE: [&str; 5] = ["status", "forget", "list", "command", "find"];

/// Run a command once, however often it is asked for
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
The first to come runs the command. What it prints is passed on as it comes, and stored with its
exit code when it ends; whoever comes later with the same key and the same command line gets just
that, byte for byte, and the command does not run. The key is of this command line only: standard
input, environment and folder are not compared. What the command leaves behind in the background
is not waited for. A command that is not there or cannot be run leaves the key free.
The command finds TURNO_ONCE_KEY, TURNO_ONCE_TOKEN and TURNO_ONCE_ATTEMPT in its environment: the
token is larger than that of every earlier run, and above attempt 1 an earlier one has vanished.

If the command is ended by a signal, or fails after one was handed on to it, or if turno once is
killed (and the command with it), it is not known what was done: the key is unknown, and refused
until an operator has looked, and said --done (it was done), --forget (it was not), or
--unknown rerun. --done is refused for a key that is in flight or has an answer. Commands under
this key then exit with the code of --exit-code; without an answer they exit with 1 and say that
the work is done.

Exits with the command's own code (128 + N if signal N ended it), also when it is replayed; with 75
if it is in flight elsewhere; with 1 if the key is unknown, belongs to another command, or another
run has taken over; with 127 or 126 if the command is not there or cannot be run.
With --json, turno's own word on a run is one line on standard error, the last: {\"claim\", …},
{\"replay\", …}, or {\"code\", …} with in_flight, mismatch, unknown or stale. --status, --forget, --done
and --list print theirs on standard output.

Answers are sealed with the keys in TURNO_ANSWER_KEYS (ID:BASE64, …), or in the file that
answer_keys_file in [once] of turno.toml names."
)]
pub(crate) struct OnceArgs {
    /// What is done once, such as pago/77
    #[arg(value_name = "KEY", required_unless_present_any = ["list", "find"])]
    key: Option<String>,

    #[command(flatten)]
    run: run::RunArgs,

    /// Tell what is known of the key, and what was answered
    #[arg(long)]
    status: bool,

    /// Forget the key, unless it is in flight: the next call runs the command
    #[arg(long)]
    forget: bool,

    /// Say that the work of an unknown key was done: the next call does not run the command
    #[arg(long)]
    done: bool,

    /// List the keys, in order
    #[arg(long, conflicts_with = "key")]
    list: bool,

    /// Tell what is known of a request that came through a gate, by the key that its client sent
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

    /// The command and its arguments, after --
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
        bail!("clap has let a missing key pass");
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
        let detail = "a server seals answers with keys of its own: give them to `turno serve`, and not to this command";
        return Err(Usage::new(answer_keys::VARIABLE, detail).into());
    }
    let mut settings = context.settings.clone();
    settings.answer_keys = answer_keys;
    Ok(settings)
}
