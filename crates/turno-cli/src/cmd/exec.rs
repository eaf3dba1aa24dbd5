//! `turno __exec PARENT COMMAND…`: the last step before a guarded command.
//!
//! The kernel is asked to kill this process when its parent, `turno run` or `turno once`, dies however suddenly, and
//! then the command takes its place, keeping that promise with its process id. So a command never
//! outlives the one who keeps its lease.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::Signal;

/// How `turno run` and `turno once` call it.
pub(crate) const VERB: &str = "__exec";

const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// How it ends what it says when the command cannot be run.
const REFUSED_END: &str = "): check its name and its rights";

/// How it begins that.
fn refused_begin(program: &OsStr) -> String {
    format!("error: {} cannot be run (", program.display())
}

/// Whether a command that ended so never ran: it is not there, or cannot be run.
pub(crate) fn never_ran(program: &OsStr, code: u8, stderr: &[u8]) -> bool {
    let said = String::from_utf8_lossy(stderr);
    matches!(code, NOT_FOUND | NOT_EXECUTABLE)
        && said.starts_with(&refused_begin(program))
        && said.ends_with(&format!("{REFUSED_END}\n"))
        && said.lines().count() == 1
}

pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments
        .next()
        .and_then(|pid| pid.to_str()?.parse::<i32>().ok());
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        eprintln!("error: {VERB} is for `turno run` and `turno once` only: call those");
        return ExitCode::from(2);
    };
    if let Err(error) = die_with(parent) {
        eprintln!("error: the command was not started: {error}");
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(arguments).exec();
    let code = if error.kind() == ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    };
    eprintln!("{}{error}{REFUSED_END}", refused_begin(&program));
    ExitCode::from(code)
}

#[cfg(target_os = "linux")]
fn die_with(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the request was made sends nothing: then somebody else adopted us.
    match rustix::process::getppid() {
        Some(now) if now.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(io::Error::other("turno has died meanwhile")),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: i32) -> io::Result<()> {
    Ok(())
}
