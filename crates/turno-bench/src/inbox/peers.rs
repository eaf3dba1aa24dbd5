//! The peers, each measured by a separate program, because their dependencies conflict with each other and with Turno's.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{BATCH, PAYLOAD_BYTES};

/// Output of a peer's program.
#[derive(Debug, Deserialize)]
pub struct Measured {
    pub per_second: f64,
    #[serde(default)]
    pub median_ms: Option<f64>,
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
    match run(program, peer, mode, store, items, consumers) {
        Ok(measured) => Some(measured),
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
) -> Result<Measured> {
    // Taken from the cargo that runs this, because checkouts may share a target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask bench`")?;
    let manifest = Path::new(&here).join("..").join(program).join("Cargo.toml");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--profile", "dist", "--quiet", "--manifest-path"])
        .arg(manifest)
        .args(["--", peer, "--mode", mode, "--store", store])
        .args(["--items", &items.to_string()])
        .args(["--payload", &PAYLOAD_BYTES.to_string()])
        .args(["--batch", &BATCH.to_string()])
        .args(["--consumers", &consumers.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo could not be started")?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("it printed nothing")?;
    Ok(serde_json::from_str(line)?)
}
