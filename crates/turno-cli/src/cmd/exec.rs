//! `turno __exec PARENT COMMAND…`: the last step before a guarded command.
//!
//! This process asks the kernel to kill it when its parent, `turno run` or `turno once`, dies. Then it executes the command,
//! which keeps the process id and with it this setting. So a command never outlives the process that renews its lease.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::Signal;

/// Name under which `turno run` and `turno once` start it.
pub(crate) const VERB: &str = "__exec";

const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// End of the message for a command that cannot be run.
const REFUSED_END: &str = "): check its name and its permissions";

/// Returns the beginning of that message.
fn refused_begin(program: &OsStr) -> String {
    format!("error: {} cannot be run (", program.display())
}

/// Whether a command that ended like this never ran, because it does not exist or is not executable.
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
        eprintln!("error: {VERB} is internal: use `turno run` or `turno once`");
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
    // If the parent died before the request, no signal comes: then the parent is now another process.
    match rustix::process::getppid() {
        Some(now) if now.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(io::Error::other("the parent process has ended")),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: i32) -> io::Result<()> {
    Ok(())
}
