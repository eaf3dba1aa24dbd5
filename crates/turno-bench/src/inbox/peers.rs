//! The peers, each measured by a separate program, because their dependencies conflict with each other and with Turno's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{BATCH, PAYLOAD_BYTES};

/// Peers in other languages: the program that runs each and its argument, in the folder that `cargo xtask bench` has installed
/// them into.
const OTHERS: [(&str, &str, &str); 3] = [
    ("bullmq", "node/node_modules/.bin/node", "node/bullmq.mjs"),
    ("pg-boss", "node/node_modules/.bin/node", "node/pg-boss.mjs"),
    (
        "procrastinate",
        "python/bin/python",
        "python/procrastinate_peer.py",
    ),
];

/// Settings of each peer and mode that was measured, as its program describes them.
static SETTINGS: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());

/// Output of a peer's program.
#[derive(Debug, Deserialize)]
pub struct Measured {
    pub per_second: f64,
    #[serde(default)]
    pub median_ms: Option<f64>,
    #[serde(default)]
    note: String,
}

/// Returns whether a peer can be measured. A peer in another language may not be installed.
pub fn is_installed(peer: &str) -> bool {
    match OTHERS.iter().find(|(name, ..)| *name == peer) {
        Some((_, program, _)) => folder().is_some_and(|folder| folder.join(program).exists()),
        None => true,
    }
}

fn folder() -> Option<PathBuf> {
    std::env::var_os("TURNO_BENCH_PEERS").map(PathBuf::from)
}

/// Prints the settings of the peers that were measured.
pub fn print_settings() {
    let settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if !settings.is_empty() {
        println!("\nSettings of the peers");
    }
    for ((peer, mode), note) in &*settings {
        println!("  {:<30} {note}", format!("{peer}, {mode}"));
    }
}

/// Runs one measurement of one peer on a new database. Prints a message and returns `None` if it fails.
pub fn measure(
    program: &str,
    peer: &str,
    mode: &str,
    store: &str,
    items: usize,
    consumers: usize,
) -> Option<Measured> {
    report(
        run(program, peer, mode, store, items, consumers, &[]),
        peer,
        mode,
    )
}

/// The same without the vacuum and the checkpoint that peers run between pushing and draining, which would count as their cost.
pub fn measure_without_maintenance(
    program: &str,
    peer: &str,
    mode: &str,
    store: &str,
    items: usize,
    consumers: usize,
) -> Option<Measured> {
    let options = ["--without-maintenance"];
    let measured = run(program, peer, mode, store, items, consumers, &options);
    report(measured, peer, mode)
}

fn report(measured: Result<Measured>, peer: &str, mode: &str) -> Option<Measured> {
    match measured {
        Ok(measured) => {
            let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
            settings.insert((peer.to_owned(), mode.to_owned()), measured.note.clone());
            Some(measured)
        }
        Err(error) => {
            println!("  {peer} could not be measured ({mode}): {error:#}");
            None
        }
    }
}

fn run(
    program: &str,
    peer: &str,
    mode: &str,
    store: &str,
    items: usize,
    consumers: usize,
    options: &[&str],
) -> Result<Measured> {
    let output = command(program, peer)?
        .args(["--mode", mode, "--store", store])
        .args(["--items", &items.to_string()])
        .args(["--payload", &PAYLOAD_BYTES.to_string()])
        .args(["--batch", &BATCH.to_string()])
        .args(["--consumers", &consumers.to_string()])
        .args(options)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("it could not be started")?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("it printed nothing")?;
    Ok(serde_json::from_str(line)?)
}

/// Returns the command that measures a peer, without the plan.
fn command(program: &str, peer: &str) -> Result<Command> {
    if let Some((_, runtime, script)) = OTHERS.iter().find(|(name, ..)| *name == peer) {
        let folder = folder().context("run it as `cargo xtask bench`")?;
        let mut command = Command::new(folder.join(runtime));
        command.arg(folder.join(script));
        return Ok(command);
    }
    // Taken from the cargo that runs this, because checkouts may share a target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask bench`")?;
    let manifest = Path::new(&here).join("..").join(program).join("Cargo.toml");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["run", "--profile", "dist", "--quiet", "--manifest-path"])
        .arg(manifest)
        .args(["--", peer]);
    Ok(command)
}
