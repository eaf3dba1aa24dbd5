//! Programs that the tests and benchmarks need besides Rust, and the Debian packages that have them.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A program, and what to install where it is missing.
pub struct Need {
    program: &'static str,
    /// What it must be able to do, if its being there does not say that.
    does: &'static [&'static str],
    packages: &'static [&'static str],
}

// SQLite is compiled with the workspace; Debian's compiler only recommends the C library's headers.
const COMPILER: Need = Need {
    program: "cc",
    does: &[],
    packages: &["gcc", "libc6-dev"],
};
const POSTGRES: Need = Need {
    program: "initdb",
    does: &[],
    packages: &["postgresql"],
};
const PGBOUNCER: Need = Need {
    program: "pgbouncer",
    does: &[],
    packages: &["pgbouncer"],
};
const FAKETIME: Need = Need {
    program: "faketime",
    does: &[],
    packages: &["faketime"],
};
const REDIS: Need = Need {
    program: "redis-server",
    does: &[],
    packages: &["redis-server"],
};
const RABBITMQ: Need = Need {
    program: "rabbitmq-server",
    does: &[],
    packages: &["rabbitmq-server"],
};
const NATS: Need = Need {
    program: "nats-server",
    does: &[],
    packages: &["nats-server"],
};
// The legacy service that `turno gate` is tried with, and Schemathesis. Debian's can install nothing by itself.
const PYTHON: Need = Need {
    program: "python3",
    does: &["-c", "import ensurepip, venv"],
    packages: &["python3", "python3-venv"],
};
// The users of an example call Turno's SQL functions from TypeScript.
const NPM: Need = Need {
    program: "npm",
    does: &[],
    packages: &["nodejs", "npm"],
};

// The guide for Java is compiled and run.
const JAVA: Need = Need {
    program: "javac",
    does: &[],
    packages: &["default-jdk-headless"],
};
// PostgreSQL's driver for Java is no program.
const JDBC: Need = Need {
    program: "sh",
    does: &["-c", "test -e /usr/share/java/postgresql.jar"],
    packages: &["libpostgresql-jdbc-java"],
};

// The commands of the documentation.
const CURL: Need = Need {
    program: "curl",
    does: &[],
    packages: &["curl"],
};
// Certificates for the tests of TLS.
const OPENSSL: Need = Need {
    program: "openssl",
    does: &[],
    packages: &["openssl"],
};
// The dashboard, in a real browser.
const BROWSER: Need = Need {
    program: "chromedriver",
    does: &[],
    packages: &["chromium", "chromium-driver"],
};
// These check the files of the release package.
const PROMTOOL: Need = Need {
    program: "promtool",
    does: &[],
    packages: &["prometheus"],
};
const SYSTEMD: Need = Need {
    program: "systemd-analyze",
    does: &[],
    packages: &["systemd"],
};
const MAN: Need = Need {
    program: "man",
    does: &[],
    packages: &["man-db"],
};
// `turno top`, at a terminal.
const TMUX: Need = Need {
    program: "tmux",
    does: &[],
    packages: &["tmux"],
};
// The load on the server, and a peer of its locks.
const WRK: Need = Need {
    program: "wrk",
    does: &[],
    packages: &["wrk"],
};
const ETCD: Need = Need {
    program: "etcd",
    does: &[],
    packages: &["etcd-server"],
};

/// What the tests need.
pub const TEST: &[Need] = &[
    COMPILER, POSTGRES, PGBOUNCER, FAKETIME, RABBITMQ, NATS, PYTHON, NPM, JAVA, JDBC, CURL,
    OPENSSL, BROWSER, TMUX, PROMTOOL, SYSTEMD, MAN,
];

/// What a build needs.
pub const BUILD: &[Need] = &[COMPILER];

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
        let mut places = folders.iter().map(|folder| folder.join(need.program));
        !places.any(|place| place.is_file())
            || !need.does.is_empty() && !succeeds(need.program, need.does)
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
    if is_root() {
        Some(&[])
    } else if succeeds("sudo", &["-n", "true"]) {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    succeeds("sh", &["-c", "[ \"$(id -u)\" = 0 ]"])
}

/// Whether a program does what it is told, in silence.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
