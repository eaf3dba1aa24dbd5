//! Programs with a shifted clock, through libfaketime.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Folder of Debian's libraries, with one subfolder per architecture.
const LIBRARIES: &str = "/usr/lib";

/// Shifts the clock of `command` by `offset`, such as `+1h`.
///
/// The library is preloaded directly. The wrapper program of the same name is not used: it needs a semaphore named after its
/// process id, and fails if a killed process with the same id has left one behind.
///
/// # Panics
///
/// Panics if libfaketime is not installed.
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
