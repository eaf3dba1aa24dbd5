//! Runs the test programs side by side: most of their time they wait for servers and clocks.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::steps::{cargo_program, without_package};

/// How many test programs run at the same time. Each uses as many threads as there are cores.
const AT_ONCE: usize = 2;
/// These run by themselves at the end: they compare durations.
const ALONE: &[&str] = &["serve_faults"];
/// These take longest and start first, so that none of them is still running when all others have ended.
const FIRST: &[&str] = &[
    "conformance",
    "faults",
    "outbox_faults",
    "cli",
    "inbox_faults",
];

/// A test program that cargo has built.
struct Program {
    name: String,
    executable: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
}

/// Runs all test programs of the workspace, also after one has failed; the error names those that failed.
pub fn run(selection: &[&str]) -> Result<()> {
    let mut programs = built(selection)?;
    let rank = |program: &Program| {
        let place = FIRST.iter().position(|name| *name == program.name);
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

/// Asks cargo, which builds what is missing.
fn built(selection: &[&str]) -> Result<Vec<Program>> {
    let mut command = Command::new(cargo_program());
    without_package(&mut command)
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
    })
}

/// The names of those that failed.
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
    /// Runs it, and prints one line, or all of its output if it fails.
    fn succeeds(&self) -> bool {
        let began = Instant::now();
        let mut command = Command::new(&self.executable);
        without_package(&mut command)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null());
        let seconds = || began.elapsed().as_secs_f32();
        match command.output() {
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

/// How many tests passed, as the program says it.
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
