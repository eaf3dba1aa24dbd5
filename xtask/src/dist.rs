//! The release package: the program, its manual and completions, and files for running and monitoring it, in the layout of
//! `/usr/local`, as an archive. docs/install.md has the instructions.

use std::env::{self, consts};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::steps;

/// Files that are copied unchanged, with their targets.
const FILES: [(&str, &str); 9] = [
    (
        "packaging/turno.service",
        "lib/systemd/system/turno.service",
    ),
    ("packaging/turno.sysusers", "lib/sysusers.d/turno.conf"),
    ("packaging/turno.toml", "share/turno/turno.toml"),
    ("turno.toml.example", "share/turno/turno.toml.example"),
    (
        "packaging/prometheus-alerts.yml",
        "share/turno/prometheus-alerts.yml",
    ),
    (
        "packaging/grafana-dashboard.json",
        "share/turno/grafana-dashboard.json",
    ),
    ("docs/install.md", "share/doc/turno/install.md"),
    ("LICENSE-MIT", "share/doc/turno/LICENSE-MIT"),
    ("LICENSE-APACHE", "share/doc/turno/LICENSE-APACHE"),
];

/// Completions that the program prints per shell, and their locations.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/turno"),
    ("zsh", "share/zsh/site-functions/_turno"),
    ("fish", "share/fish/vendor_completions.d/turno.fish"),
];

const MANUAL: &str = "share/man/man1";

/// Packs the release with a program, and prints the path of the archive.
pub fn make(program: &Path) -> Result<()> {
    let target = steps::target_folder()?.join("dist");
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("turno-{version}-{}-{}", consts::ARCH, consts::OS);
    let folder = target.join(&name);
    lay_out(program, &folder)?;
    let archive = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    // Files in the archive belong to root, not to the user who packed it.
    tar.args(["--create", "--gzip", "--sort=name"]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--file", &archive, &name]);
    output(tar.current_dir(&target))?;
    let sum = output(Command::new("sha256sum").arg(&archive).current_dir(&target))?;
    write(&target.join(format!("{archive}.sha256")), &sum)?;
    println!("{}", target.join(archive).display());
    Ok(())
}

/// Checks that the package can be assembled, with the program that the tests built.
pub fn check() -> Result<()> {
    let own = env::current_exe().context("a process knows its program")?;
    let programs = own.parent().context("a program is in a folder")?;
    lay_out(&programs.join("turno"), &programs.with_file_name("layout"))
}

fn lay_out(program: &Path, folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    copy(program, &folder.join("bin/turno"))?;
    for (from, to) in FILES {
        copy(Path::new(from), &folder.join(to))?;
    }
    for (shell, to) in COMPLETIONS {
        let script = output(Command::new(program).args(["completions", shell]))?;
        write(&folder.join(to), &script)?;
    }
    let manual = folder.join(MANUAL);
    fs::create_dir_all(&manual)?;
    output(Command::new(program).arg("__man").arg(&manual))?;
    let pages: Vec<PathBuf> = fs::read_dir(&manual)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    ensure!(
        pages.contains(&manual.join("turno.1")),
        "the manual has no first page"
    );
    for page in &pages {
        let is_empty = fs::metadata(page)?.len() == 0;
        ensure!(!is_empty, "{} is empty", page.display());
    }
    println!("{}: {} pages", folder.display(), pages.len());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_room(to)?;
    let bytes = fs::copy(from, to).with_context(|| format!("could not copy {}", from.display()))?;
    ensure!(bytes > 0, "{} is empty", from.display());
    Ok(())
}

fn write(to: &Path, text: &[u8]) -> Result<()> {
    make_room(to)?;
    ensure!(!text.is_empty(), "{} would be empty", to.display());
    fs::write(to, text).with_context(|| format!("could not write {}", to.display()))
}

fn make_room(path: &Path) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))
}

/// Runs a command, which must succeed, and returns its output.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not start {command:?}"))?;
    ensure!(
        done.status.success(),
        "{command:?} ended with {}",
        done.status
    );
    Ok(done.stdout)
}
