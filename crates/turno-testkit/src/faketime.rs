//! Programs whose libraries tell them another time of day.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Where Debian keeps libraries, one folder an architecture.
const LIBRARIES: &str = "/usr/lib";

/// Gives `command` a clock that is off by `offset`, such as `+1h`.
///
/// The library is preloaded, and the wrapper of the same name left alone: that one insists on a semaphore named after its
/// process id, and fails where a killed process with the same id has left one behind.
///
/// # Panics
///
/// When libfaketime is not installed.
pub fn set_clock<'a>(command: &'a mut Command, offset: &str) -> &'a mut Command {
    command
        .env("LD_PRELOAD", library())
        .env("FAKETIME", offset)
        .env("FAKETIME_DISABLE_SHM", "1")
}

fn library() -> PathBuf {
    fs::read_dir(LIBRARIES)
        .into_iter()
        .flatten()
        .flatten()
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|library| library.is_file())
        .expect("libfaketime is installed: `cargo xtask test` does that")
}
