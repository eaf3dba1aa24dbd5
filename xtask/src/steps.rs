//! Steps of each task: a heading, a command, its duration. The first failure ends the task.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};

use crate::contract::Questions;
use crate::{bench, contract, deny, dist, mutants, peers, postgres, programs, words};

/// Packages to test: all but the benchmarks, which compare with software that the tests do not need and are in their own
/// workspace.
pub const TESTED: [&str; 2] = ["--workspace", "--all-features"];
const BENCH: [&str; 2] = ["--manifest-path", "crates/turno-bench/Cargo.toml"];
/// All benchmark crates. Peers whose dependencies conflict have separate crates.
const BENCHES: [&str; 3] = [
    "crates/turno-bench/Cargo.toml",
    "crates/turno-bench-peers/Cargo.toml",
    "crates/turno-bench-peers-sqlite/Cargo.toml",
];

/// Arguments of turno-bench with which it does not measure peers in other languages.
const WITHOUT_PEERS: [&str; 10] = [
    "--alone",
    "growth",
    "latency",
    "units",
    "postgres",
    "sqlite",
    "inbox-sqlite",
    "outbox",
    "once",
    "serve",
];

/// Runs all checks that a change must pass.
///
/// `postgres` has the major versions of PostgreSQL that are tested besides Debian's.
pub fn all(postgres: &[u32]) -> Result<()> {
    format()?;
    step("words", words::check)?;
    step("the page of benchmarks", || bench::check(Path::new(".")))?;
    step("lock files", lock_files)?;
    step("dependencies", deny::check)?;
    step("lint and build the tests", build_tests)?;
    let versions = versions(postgres)?;
    step("cargo test", || programs::run(&TESTED, &versions))?;
    at_once(
        || step("the HTTP contract", || contract::check(Questions::of_ci())),
        || {
            step("the examples in the documentation", || {
                linted(&[&["test", "--doc"], &TESTED[..]].concat())
            })?;
            step("cargo doc", documentation)
        },
    )?;
    step("release packages", dist::check)
}

/// Does two things at the same time that each leave a core idle. Both are done, whether the other fails or not.
fn at_once(
    one: impl FnOnce() -> Result<()> + Send,
    other: impl FnOnce() -> Result<()>,
) -> Result<()> {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        one.join()
            .map_err(|_| anyhow!("a step panicked"))?
            .and(other)
    })
}

fn format() -> Result<()> {
    step("cargo fmt", || {
        component("fmt", "rustfmt")?;
        cargo(&["fmt", "--all", "--check"]).context("run `cargo fmt --all`")?;
        for manifest in BENCHES {
            cargo(&["fmt", "--check", "--manifest-path", manifest])
                .with_context(|| format!("run `cargo fmt --manifest-path {manifest}`"))?;
        }
        Ok(())
    })
}

/// Checks that the lock files of the crates outside the workspace agree with their manifests.
fn lock_files() -> Result<()> {
    for manifest in BENCHES {
        let update = ["update", "--workspace", "--manifest-path", manifest];
        cargo(&[&update[..], &["--locked"]].concat())
            .with_context(|| format!("run `cargo {}`", update.join(" ")))?;
    }
    Ok(())
}

fn build_tests() -> Result<()> {
    linted(&[&["test", "--no-run"], &TESTED[..]].concat())
}

/// Runs the conformance rules and the tests of SQL functions on other versions of PostgreSQL.
pub fn on_postgres(majors: &[u32]) -> Result<()> {
    let versions = versions(majors)?;
    step("cargo test", || programs::run_on(&TESTED, &versions))
}

/// Installs these versions of PostgreSQL, if they are missing.
fn versions(majors: &[u32]) -> Result<Vec<programs::Version>> {
    let provide = |major: &u32| {
        Ok(programs::Version {
            major: *major,
            programs: postgres::provide(*major)?,
        })
    };
    majors.iter().map(provide).collect()
}

/// Runs the checks that need nothing but Rust. They take a minute or two after the build.
pub fn quick() -> Result<()> {
    format()?;
    step("words", words::check)?;
    step("lint and build the tests", build_tests)?;
    step("cargo test", || programs::run_quick(&TESTED))
}

/// Runs only the tests that `arguments` select.
pub fn filtered(arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    step("cargo test", || {
        linted(&[&["test"], &TESTED[..], &arguments].concat())
    })
}

/// Runs only the checks of the HTTP contract.
pub fn outside(arguments: &[String]) -> Result<()> {
    let questions = Questions::parse(arguments)?;
    step("build the servers", || {
        let programs = ["--bin", "turno", "--bin", "turno-servers"];
        linted(&[&["build"], &TESTED[..], &programs].concat())
    })?;
    step("the HTTP contract", || contract::check(questions))
}

/// Runs a campaign of faults. The arguments are those of `turno-campaign run` or, after `plants`, of `turno-campaign plants`.
pub fn campaign(arguments: &[String]) -> Result<()> {
    step("build the campaign", || {
        let program = ["--bin", "turno-campaign"];
        linted(&[&["build"], &TESTED[..], &program].concat())
    })?;
    let mut command = Command::new(target_folder()?.join("debug/turno-campaign"));
    if arguments.first().is_none_or(|word| word != "plants") {
        command.arg("run");
    }
    command.args(arguments);
    step("the campaign", || run(&mut command))
}

/// Tries mutants of the SQL functions.
pub fn mutants(arguments: &[String]) -> Result<()> {
    step("build the servers", || {
        let program = ["--bin", "turno-servers"];
        linted(&[&["build"], &TESTED[..], &program].concat())
    })?;
    step("mutants", || mutants::run(arguments))
}

/// Builds the release package, with `program` or with a new build.
pub fn dist(program: Option<&Path>) -> Result<()> {
    let built = match program {
        Some(program) => program.to_owned(),
        None => {
            step("build turno", || {
                cargo(&["build", "--locked", "--profile", "dist", "--bin", "turno"])
            })?;
            target_folder()?.join("dist/turno")
        }
    };
    step("pack it", || dist::make(&built))
}

/// Runs the benchmarks, optimised, with the release binary, whose start time and memory are measured. `page` is all of them, and
/// writes the page that follows from the results.
pub fn bench(arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["page", ..] => {
            let options = &arguments[1..];
            run_bench(&[&["all", "--json", bench::RESULTS], options].concat())?;
            step("charts and tables", || {
                bench::charts(Path::new("."), Path::new(bench::RESULTS))
            })
        }
        // pgbench makes the calls, so it does not matter how Turno is built.
        ["calls", ..] => step("turno-bench", || {
            cargo(&[&["run"], &BENCH[..], &["--"], &arguments].concat())
        }),
        _ => run_bench(&arguments),
    }
}

fn run_bench(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(cargo_program());
    without_package(&mut command);
    if !arguments.iter().any(|word| WITHOUT_PEERS.contains(word)) {
        step("peers in other languages", || {
            command.env("TURNO_BENCH_PEERS", peers::provide(&target_folder()?));
            Ok(())
        })?;
    }
    step("build turno", || {
        cargo(&["build", "--profile", "dist", "--bin", "turno"])
    })?;
    let turno = target_folder()?.join("dist/turno");
    command.args(["run", "--profile", "dist"]).args(BENCH);
    command.arg("--").arg("--turno").arg(turno).args(arguments);
    step("turno-bench", || run(&mut command))
}

/// Returns cargo's target folder of the workspace, unless its configuration sets another one.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    folder
        .canonicalize()
        .with_context(|| format!("nothing was built in {}", folder.display()))
}

/// Prints a heading, does the work, prints its duration.
pub fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n=== {name}");
    let started = Instant::now();
    let result = work().with_context(|| format!("{name} failed"));
    let outcome = if result.is_ok() { "done" } else { "FAILED" };
    println!(
        "--- {name}: {outcome} in {:.1} s",
        started.elapsed().as_secs_f32()
    );
    result
}

/// Builds the documentation of libraries only: the binary has the library's name, and their pages would overwrite each other.
fn documentation() -> Result<()> {
    let mut command = Command::new(cargo_program());
    command.args(["doc", "--no-deps", "--workspace", "--all-features", "--lib"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(without_package(&mut command))
}

/// Returns an error with a hint if a toolchain component is missing; cargo itself only reports "no such command".
fn component(subcommand: &str, name: &str) -> Result<()> {
    let there = Command::new(cargo_program())
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    ensure!(
        there,
        "{name} is not installed: run `rustup component add {name}`"
    );
    Ok(())
}

/// Runs cargo with clippy as the compiler of the workspace: one build lints it and makes its programs. A separate
/// `cargo clippy` would compile everything a second time.
fn linted(arguments: &[&str]) -> Result<()> {
    component("clippy", "clippy")?;
    let mut command = Command::new(cargo_program());
    run(with_lints(without_package(&mut command))?.args(arguments))
}

/// Sets the environment variables that `cargo clippy -- -D warnings` sets.
pub(crate) fn with_lints(command: &mut Command) -> Result<&mut Command> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output();
    let output = output.context("could not start rustc")?;
    let sysroot = String::from_utf8(output.stdout).context("the path of rustc is not UTF-8")?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    command.env("RUSTC_WORKSPACE_WRAPPER", driver);
    let separator = "__CLIPPY_HACKERY__";
    command.env("CLIPPY_ARGS", ["-D", "warnings", ""].join(separator));
    Ok(command)
}

pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(cargo_program());
    run(without_package(&mut command).args(arguments))
}

/// Removes cargo's environment variables about this package. Build scripts that depend on them would run again in each
/// checkout, and so would the build of all their dependents.
pub(crate) fn without_package(command: &mut Command) -> &mut Command {
    let own = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in
        own.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
    {
        command.env_remove(name);
    }
    command
}

/// Returns the cargo that runs this task, so that a selected toolchain stays selected.
pub(crate) fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
