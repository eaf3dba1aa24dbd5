//! Peers of the benchmarks in other languages, installed with the versions of their lock files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::needs::{self, NPM, PYTHON};

/// Folder with the peers' programs and lock files.
const SOURCES: &str = "crates/turno-bench-peers";

/// Peers that one package manager installs.
struct Kind {
    names: &'static str,
    /// Subfolder of the sources, and of the folder to install into.
    folder: &'static str,
    files: &'static [&'static str],
    /// The one of the files with all versions.
    versions: &'static str,
    /// What can be missing: it is installed if possible.
    need: needs::Need,
    install: fn(&Path) -> Result<()>,
    /// Program that runs the peers, in the folder. An installation without it is repeated.
    program: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        names: "bullmq and pg-boss",
        folder: "node",
        files: &[
            ".npmrc",
            "package.json",
            "package-lock.json",
            "measure.mjs",
            "bullmq.mjs",
            "pg-boss.mjs",
        ],
        versions: "package-lock.json",
        need: NPM,
        install: npm,
        program: "node_modules/.bin/node",
    },
    Kind {
        names: "procrastinate",
        folder: "python",
        files: &["requirements.txt", "procrastinate_peer.py"],
        versions: "requirements.txt",
        need: PYTHON,
        install: pip,
        program: "bin/python",
    },
];

/// Installs the peers into a folder, unless they are there. Those that cannot be installed are reported and left out: the
/// benchmarks run without them.
pub fn provide(folder: &Path) -> PathBuf {
    let folder = folder.join("bench-peers");
    for kind in KINDS {
        let into = folder.join(kind.folder);
        if let Err(error) = kind.provide(&into) {
            // An incomplete installation must not be measured.
            let _ = fs::remove_file(into.join(kind.program));
            println!("left out: {}, because {error:#}", kind.names);
        }
    }
    folder
}

impl Kind {
    fn provide(&self, into: &Path) -> Result<()> {
        needs::provide(std::slice::from_ref(&self.need))?;
        fs::create_dir_all(into).with_context(|| format!("could not create {}", into.display()))?;
        let from = Path::new(SOURCES).join(self.folder);
        for file in self.files {
            fs::copy(from.join(file), into.join(file))
                .with_context(|| format!("could not copy {file} to {}", into.display()))?;
        }
        let versions = fs::read_to_string(into.join(self.versions))?;
        // Written last, so that an interrupted installation is repeated.
        let installed = into.join("installed.txt");
        let is_there = fs::read_to_string(&installed).is_ok_and(|there| there == versions);
        if !is_there || !works(&into.join(self.program)) {
            println!("installing {} into {}", self.names, into.display());
            (self.install)(into)?;
            fs::write(&installed, versions)?;
        }
        ensure!(
            works(&into.join(self.program)),
            "there is no {} for this machine",
            self.program
        );
        Ok(())
    }
}

/// Not `npm ci`, which wants optional packages for all platforms in the lock file. The versions are the same.
fn npm(into: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--ignore-scripts"]);
    npm.args(["--no-audit", "--no-fund", "--loglevel", "error"]);
    run(npm.current_dir(into))
}

fn pip(into: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(into))?;
    let mut pip = Command::new(into.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet"]);
    pip.args(["--disable-pip-version-check", "--requirement"]);
    run(pip.arg(into.join("requirements.txt")))
}

fn works(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null());
    command.stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
