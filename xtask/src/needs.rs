//! Programs that the tests and benchmarks need besides Rust, and the Debian packages that have them.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A program, and what to install where it is missing.
pub struct Need {
    program: &'static str,
    packages: &'static [&'static str],
}

// SQLite is compiled with the workspace; Debian's compiler only recommends the C library's headers.
const COMPILER: Need = Need {
    program: "cc",
    packages: &["gcc", "libc6-dev"],
};
const POSTGRES: Need = Need {
    program: "initdb",
    packages: &["postgresql"],
};
const PGBOUNCER: Need = Need {
    program: "pgbouncer",
    packages: &["pgbouncer"],
};
const FAKETIME: Need = Need {
    program: "faketime",
    packages: &["faketime"],
};
const REDIS: Need = Need {
    program: "redis-server",
    packages: &["redis-server"],
};
const RABBITMQ: Need = Need {
    program: "rabbitmq-server",
    packages: &["rabbitmq-server"],
};
const NATS: Need = Need {
    program: "nats-server",
    packages: &["nats-server"],
};
// The legacy service that `turno gate` is tried with.
const PYTHON: Need = Need {
    program: "python3",
    packages: &["python3"],
};
// The users of an example call Turno's SQL functions from TypeScript.
const NPM: Need = Need {
    program: "npm",
    packages: &["nodejs", "npm"],
};

// The load on the server, and a peer of its locks.
const WRK: Need = Need {
    program: "wrk",
    packages: &["wrk"],
};
const ETCD: Need = Need {
    program: "etcd",
    packages: &["etcd-server"],
};

/// What the tests need.
pub const TEST: &[Need] = &[
    COMPILER, POSTGRES, PGBOUNCER, FAKETIME, RABBITMQ, NATS, PYTHON, NPM,
];

/// What the benchmarks need.
pub const BENCH: &[Need] = &[
    COMPILER, POSTGRES, PGBOUNCER, FAKETIME, REDIS, RABBITMQ, NATS, WRK, ETCD,
];

/// Where Debian keeps each PostgreSQL version's own programs, out of the `PATH`.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Nothing is asked, and no installed server is started: the tests start private ones. Packages ask the run level where init
/// scripts start servers; systemd does not look at it, but is left alone by a `systemctl` that takes itself to be offline.
const APT_ENVIRONMENT: [&str; 3] = [
    "DEBIAN_FRONTEND=noninteractive",
    "RUNLEVEL=1",
    "SYSTEMD_OFFLINE=1",
];

/// Installs what is missing, or fails with the command that would.
pub fn provide(needs: &[Need]) -> Result<()> {
    let packages = missing(needs);
    if packages.is_empty() {
        println!("all there");
        return Ok(());
    }
    println!("missing packages: {}", packages.join(" "));
    install(&packages)?;
    let still = missing(needs);
    ensure!(
        still.is_empty(),
        "{} were installed, but their programs are not found",
        still.join(" ")
    );
    Ok(())
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    let folders = folders();
    let absent = |need: &&Need| {
        !folders
            .iter()
            .any(|folder| folder.join(need.program).is_file())
    };
    needs
        .iter()
        .filter(absent)
        .flat_map(|need| need.packages)
        .copied()
        .collect()
}

/// Where programs are looked for: the `PATH`, the folders for servers that a user's `PATH` may lack, and PostgreSQL's own.
fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir(POSTGRES_VERSIONS)
        .into_iter()
        .flatten()
        .flatten();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .chain(versions.map(|version| version.path().join("bin")))
        .collect()
}

fn install(packages: &[&str]) -> Result<()> {
    let by_hand = format!(
        "apt-get update && apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    );
    if !folders()
        .iter()
        .any(|folder| folder.join("apt-get").is_file())
    {
        bail!(
            "there is no apt-get here: install what Debian calls {} by hand",
            packages.join(", ")
        );
    }
    let Some(prefix) = root_prefix() else {
        bail!("only root may install packages: run `sudo sh -c '{by_hand}'`");
    };
    let apt = |arguments: &[&str]| -> Result<()> {
        let words = [prefix, &["env"], &APT_ENVIRONMENT, &["apt-get"], arguments].concat();
        let (program, arguments) = words.split_first().context("the words include apt-get")?;
        let status = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .status();
        let status = status.with_context(|| format!("could not start {program}"))?;
        ensure!(
            status.success(),
            "`{}` ended with {status}: try `{by_hand}` by hand",
            words.join(" ")
        );
        Ok(())
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

/// What to put before a command so that root runs it; `None` if that needs a password.
fn root_prefix() -> Option<&'static [&'static str]> {
    let succeeds = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if succeeds("sh", &["-c", "[ \"$(id -u)\" = 0 ]"]) {
        Some(&[])
    } else if succeeds("sudo", &["-n", "true"]) {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}
