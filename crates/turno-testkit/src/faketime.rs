//! Programs with a shifted clock, through libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
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

/// Returns the beginning of a command line whose program has a clock that `file` shifts, such as by `+5`, also while it runs.
/// Its monotonic clock is not shifted.
///
/// # Panics
///
/// Panics if libfaketime is not installed.
pub(crate) fn with_clock_of(file: &Path) -> Vec<String> {
    vec![
        "/usr/bin/env".to_owned(),
        format!("LD_PRELOAD={}", library().display()),
        format!("FAKETIME_TIMESTAMP_FILE={}", file.display()),
        "FAKETIME_CACHE_DURATION=1".to_owned(),
        "FAKETIME_DISABLE_SHM=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ]
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
