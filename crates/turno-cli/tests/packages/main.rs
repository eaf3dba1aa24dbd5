//! Files of an installation: settings, service, container, manual, alerts and dashboard match the program.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod container;
mod crates;
mod manual;
mod service;
mod settings;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a file in the repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
        .canonicalize()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// Runs an external checker, which `cargo xtask test` installs if it is missing. Returns its output.
#[track_caller]
fn accepts(command: &mut Command) -> String {
    let done = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}: `cargo xtask test` installs it"));
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(done.status.success(), "{command:?}: {said}");
    said
}
