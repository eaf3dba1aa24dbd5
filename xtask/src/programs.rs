//! Runs the test programs concurrently, because they spend most of their time waiting for servers and clocks.
//!
//! The programs that test a version of PostgreSQL are in the same queue, so that no core is idle until the last one of a group
//! ends.

use std::collections::VecDeque;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::memory;
use crate::steps::{TESTED, cargo_program, with_lints, without_package};

/// Number of test programs that run at the same time. Each uses as many threads as there are cores.
const AT_ONCE: usize = 2;
/// Programs that run alone at the end: `serve_faults` compares durations, and `campaign` uses all cores, so that a server of another
/// program would take minutes to start.
const ALONE: &[&str] = &["serve_faults", "campaign"];
/// Programs that take longest. They start first, so that none of them is still running when all others have ended.
const FIRST: &[&str] = &[
    "conformance",
    "faults",
    "outbox_faults",
    "cli",
    "inbox_faults",
];

/// A run of a test program that cargo has built.
#[derive(Clone)]
pub struct Program {
    name: String,
    executable: PathBuf,
    /// Working directory, the same as cargo's.
    folder: PathBuf,
    /// Arguments that select tests of the program, as in `cargo test -- …`.
    arguments: &'static [&'static str],
    /// Folder with the programs of another PostgreSQL version. Default: the installed one.
    postgres: Option<PathBuf>,
}

/// Another version of PostgreSQL.
pub struct Version {
    pub major: u32,
    pub programs: PathBuf,
}

/// Test programs, each with the arguments that select its tests.
pub type Selection = &'static [(&'static str, &'static [&'static str])];

/// Tests of PostgreSQL: connections, all conformance rules, and all SQL functions.
const OF_POSTGRES: Selection = &[
    ("conformance", &["postgres::"]),
    ("connect", &[]),
    ("migrations", &[]),
    ("sql_face", &[]),
    ("adopt", &[]),
];

/// Tests that need nothing but Rust: unit tests, and all conformance rules on SQLite, called directly and over HTTP.
const QUICK: Selection = &[
    ("conformance", &["sqlite::"]),
    ("over_http", &["--skip", "postgres::"]),
    ("model", &["--skip", "postgres"]),
    ("once_http", &["--skip", "postgres"]),
    ("gate", &["--skip", "postgres"]),
    ("spawn", &[]),
    ("turno", &["--skip", "postgres"]),
    ("turno_api", &[]),
    ("turno_client", &[]),
    ("turno_server", &[]),
    ("turno_testkit", &[]),
    ("xtask", &[]),
];

/// Runs all test programs of the workspace, and those of PostgreSQL also on each of `versions`. A failure does not stop the
/// others. The error names the programs that failed.
pub fn run(selection: &[&str], versions: &[Version]) -> Result<()> {
    let programs = built(selection)?;
    let other_versions = on(&programs, versions);
    run_all([programs, other_versions].concat())
}

/// Runs only the programs that test PostgreSQL, on each of `versions`.
pub fn run_on(selection: &[&str], versions: &[Version]) -> Result<()> {
    run_all(on(&built(selection)?, versions))
}

/// Runs only the tests that need nothing but Rust.
pub fn run_quick(selection: &[&str]) -> Result<()> {
    run_all(selected(&built(selection)?, QUICK).collect())
}

/// Returns the runs of `programs` on other versions of PostgreSQL.
fn on(programs: &[Program], versions: &[Version]) -> Vec<Program> {
    let on_version = |version: &Version| {
        let Version {
            major,
            programs: bin,
        } = version;
        let runs = selected(programs, OF_POSTGRES).map(|program| Program {
            name: format!("{} on PostgreSQL {major}", program.name),
            postgres: Some(bin.clone()),
            ..program
        });
        runs.collect::<Vec<_>>()
    };
    versions.iter().flat_map(on_version).collect()
}

/// Returns these test programs of the workspace.
pub fn tests(names: &[&str]) -> Result<Vec<Program>> {
    let targets = names.iter().flat_map(|name| ["--test", name]);
    let selection: Vec<&str> = TESTED.into_iter().chain(targets).collect();
    built(&selection)
}

fn selected(programs: &[Program], selection: Selection) -> impl Iterator<Item = Program> {
    programs.iter().filter_map(move |program| {
        let (_, arguments) = selection.iter().find(|(name, _)| *name == program.name)?;
        Some(Program {
            arguments,
            ..program.clone()
        })
    })
}

fn run_all(mut programs: Vec<Program>) -> Result<()> {
    ensure!(!programs.is_empty(), "there is no test program to run");
    let rank = |program: &Program| {
        let place = FIRST.iter().position(|name| program.name.starts_with(name));
        place.unwrap_or(FIRST.len())
    };
    programs.sort_by_key(rank);
    let (alone, together): (Vec<_>, Vec<_>) = programs
        .into_iter()
        .partition(|program| ALONE.contains(&program.name.as_str()));
    let mut failed = run_at_once(together, AT_ONCE);
    failed.extend(run_at_once(alone, 1));
    ensure!(failed.is_empty(), "these failed: {}", failed.join(", "));
    Ok(())
}

/// Returns the test programs as listed by cargo, which builds missing ones.
fn built(selection: &[&str]) -> Result<Vec<Program>> {
    let mut command = Command::new(cargo_program());
    with_lints(without_package(&mut command))?
        .args(["test", "--no-run", "--message-format=json"])
        .args(selection)
        .stderr(Stdio::inherit());
    let output = command.output().context("could not start cargo")?;
    ensure!(output.status.success(), "cargo test --no-run failed");
    let text = String::from_utf8(output.stdout).context("cargo prints UTF-8")?;
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let programs: Vec<Program> = messages.filter_map(program).collect();
    ensure!(!programs.is_empty(), "cargo has built no test program");
    Ok(programs)
}

fn program(message: Value) -> Option<Program> {
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    Some(Program {
        name: message["target"]["name"].as_str()?.to_owned(),
        executable: PathBuf::from(message["executable"].as_str()?),
        folder: manifest.parent()?.to_owned(),
        arguments: &[],
        postgres: None,
    })
}

/// Runs the programs and returns the names of those that failed.
fn run_at_once(programs: Vec<Program>, at_once: usize) -> Vec<String> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(program) = next() {
                    if !program.succeeds() {
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.push(program.name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Program {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Returns the command that runs it, as cargo would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(self.arguments);
        if let Some(programs) = &self.postgres {
            command.env("TURNO_POSTGRES_BIN", programs);
        }
        if let (Some(folder), None) = (memory::folder(), env::var_os("TMPDIR")) {
            command.env("TMPDIR", folder);
        }
        without_package(&mut command)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null());
        command
    }

    /// Runs it and prints one line, or its whole output if it fails.
    fn succeeds(&self) -> bool {
        let began = Instant::now();
        let seconds = || began.elapsed().as_secs_f32();
        match self.command().output() {
            Ok(output) if output.status.success() => {
                println!("{}: {} in {:.1} s", self.name, summary(&output), seconds());
                true
            }
            Ok(output) => {
                println!(
                    "{}: FAILED in {:.1} s ({})\n{}\n{}",
                    self.name,
                    seconds(),
                    output.status,
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                );
                false
            }
            Err(error) => {
                println!("{}: FAILED, it could not be started: {error}", self.name);
                false
            }
        }
    }
}

/// Returns the number of tests that passed, from the program's output.
fn summary(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let result = text.lines().rev().find_map(|line| {
        let result = line.strip_prefix("test result: ")?;
        Some(
            result
                .split("; finished")
                .next()
                .unwrap_or(result)
                .to_owned(),
        )
    });
    result.unwrap_or_else(|| "no test".to_owned())
}
