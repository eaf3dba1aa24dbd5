//! Fuzzing: builds the targets for libFuzzer, runs them, and keeps the inputs that reached new code.
//!
//! With the stable compiler: coverage needs only options of LLVM. The workspace forbids unsafe code, so the sanitizers, which need a
//! nightly compiler, would check little.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::steps::{cargo_program, target_folder, without_package};

/// As `cargo fuzz` sets them.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Cdebug-assertions -Ccodegen-units=1";
/// Inputs are not longer: longer ones make it slow, and reach nothing new.
const LONGEST: usize = 4096;
const CORPUS: &str = "fuzz/corpus";

/// Runs a target, or all of them, for some minutes each.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut minutes: f64 = 10.0;
    let mut only = None;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--minutes" => {
                let given = arguments.next().context("--minutes takes a number")?;
                minutes = given.parse().context("--minutes takes a number")?;
            }
            name if !name.starts_with('-') => only = Some(name),
            other => bail!("there is no option {other}"),
        }
    }
    let targets = targets()?;
    ensure!(
        only.is_none_or(|only| targets.iter().any(|target| target == only)),
        "the targets are {}",
        targets.join(", ")
    );
    let program = build()?;
    for target in &targets {
        if only.is_none_or(|only| target == only) {
            fuzz(&program, target, minutes)?;
        }
    }
    Ok(())
}

/// Returns the names of the targets: each has a corpus.
fn targets() -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(CORPUS).context(CORPUS)? {
        let path = entry?.path();
        names.extend(
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    Ok(names.into_iter().collect())
}

fn build() -> Result<PathBuf> {
    let host = host()?;
    let folder = target_folder()?.join("fuzz");
    let mut command = Command::new(cargo_program());
    without_package(&mut command)
        // With --target, build scripts and macros are built without these options.
        .args([
            "build",
            "--release",
            "--package",
            "turno-fuzz",
            "--target",
            &host,
        ])
        .env("CARGO_TARGET_DIR", &folder)
        .env("RUSTFLAGS", RUSTFLAGS);
    let status = command.status().context("could not start cargo")?;
    ensure!(status.success(), "the targets do not build");
    Ok(folder.join(host).join("release/turno-fuzz"))
}

/// Returns the name of this machine's platform.
fn host() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output();
    let output = output.context("could not start rustc")?;
    let text = String::from_utf8(output.stdout).context("rustc prints text")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc has a host")?.to_owned())
}

/// Runs a target, and replaces its corpus by the smallest one that reaches the same code.
fn fuzz(program: &Path, target: &str, minutes: f64) -> Result<()> {
    let folder = target_folder()?.join("fuzz/corpus").join(target);
    let [all, few] = ["all", "few"].map(|name| folder.join(name));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&all)?;
    fs::create_dir_all(&few)?;
    let file = Path::new(CORPUS).join(format!("{target}.txt"));
    for (number, line) in fs::read_to_string(&file)?.lines().enumerate() {
        fs::write(all.join(number.to_string()), BASE64.decode(line)?)?;
    }
    let libfuzzer = |arguments: &[String], folders: &[&PathBuf]| {
        let mut command = Command::new(program);
        command
            .env("TURNO_FUZZ", target)
            .arg(format!("-max_len={LONGEST}"))
            .arg(format!("-artifact_prefix={}/found-", folder.display()))
            .args(arguments)
            .args(folders);
        command.status().context("could not start the target")
    };
    let seconds = (minutes * 60.0).ceil();
    println!("\n--- {target}: {seconds} s");
    let options = [
        format!("-max_total_time={seconds}"),
        // A line at the end, and none for each input.
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ];
    let status = libfuzzer(&options, &[&all])?;
    ensure!(
        status.success(),
        "{target} fails for an input in {}: add it to {} in base64, and mend what it shows",
        folder.display(),
        file.display()
    );
    let merge = ["-merge=1".to_owned(), "-verbosity=0".to_owned()];
    let status = libfuzzer(&merge, &[&few, &all])?;
    ensure!(
        status.success(),
        "the inputs of {target} could not be merged"
    );
    let mut lines = BTreeSet::new();
    for entry in fs::read_dir(&few)? {
        lines.insert(BASE64.encode(fs::read(entry?.path())?));
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&file, text)?;
    println!("{target}: {} inputs", lines.len());
    Ok(())
}
