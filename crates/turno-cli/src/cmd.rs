//! The commands, one file each.

pub(crate) mod adopt;
mod child;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
mod exec;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod lock;
mod man;
pub(crate) mod migrate;
pub(crate) mod once;
mod operator;
pub(crate) mod outbox;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sweep;
pub(crate) mod token;
pub(crate) mod top;

use std::process::ExitCode;

/// Runs the internal commands, which `turno` starts itself or which build its packages. They are not in the help or the
/// completions, and some start too often to parse a command line with clap.
pub(crate) fn hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        exec::VERB => Some(exec::run(arguments)),
        demo::worker::VERB => Some(demo::worker::run(arguments)),
        man::VERB => Some(man::run(arguments)),
        _ => None,
    }
}
