//! What is given to those who install it: the program, its manual and completions, and what it is run and watched with, laid
//! out as below `/usr/local`, and packed. docs/install.md says what to do with it.

use std::env::{self, consts};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::steps;

/// What is copied as it is, and where to.
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

/// What the program prints for each shell, and where that shell looks for it.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/turno"),
    ("zsh", "share/zsh/site-functions/_turno"),
    ("fish", "share/fish/vendor_completions.d/turno.fish"),
];

const MANUAL: &str = "share/man/man1";

/// Packs it with a program, and prints where it is.
pub fn make(program: &Path) -> Result<()> {
    let target = steps::target_folder()?.join("dist");
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("turno-{version}-{}-{}", consts::ARCH, consts::OS);
    let folder = target.join(&name);
    lay_out(program, &folder)?;
    let archive = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    // Nobody who unpacks it gets files of whoever packed it.
    tar.args(["--create", "--gzip", "--sort=name"]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--file", &archive, &name]);
    output(tar.current_dir(&target))?;
    let sum = output(Command::new("sha256sum").arg(&archive).current_dir(&target))?;
    write(&target.join(format!("{archive}.sha256")), &sum)?;
    println!("{}", target.join(archive).display());
    Ok(())
}

/// Whether it can be laid out, with the program that the tests built.
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

/// What a program says that does not fail.
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
