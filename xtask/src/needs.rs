//! Programs that the tests and benchmarks need besides Rust, and the Debian packages that have them.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A program, and the packages to install if it is missing.
pub struct Need {
    program: &'static str,
    /// Command that must succeed, if the presence of the program is not enough.
    does: &'static [&'static str],
    packages: &'static [&'static str],
}

// SQLite is compiled with the workspace. Debian's compiler only recommends the C library's headers.
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
// For the legacy service that `turno gate` is tested with, for Schemathesis, and for a peer of the benchmarks. Debian's `python3` package alone cannot install packages.
pub const PYTHON: Need = Need {
    program: "python3",
    does: &["-c", "import ensurepip, venv"],
    packages: &["python3", "python3-venv"],
};
// One of the examples calls Turno's SQL functions from TypeScript, and two peers of the benchmarks are for Node.js.
pub const NPM: Need = Need {
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
// PostgreSQL's JDBC driver is a file, not a program.
const JDBC: Need = Need {
    program: "sh",
    does: &["-c", "test -e /usr/share/java/postgresql.jar"],
    packages: &["libpostgresql-jdbc-java"],
};

// For the commands of the documentation.
const CURL: Need = Need {
    program: "curl",
    does: &[],
    packages: &["curl"],
};
// For certificates in the TLS tests.
const OPENSSL: Need = Need {
    program: "openssl",
    does: &[],
    packages: &["openssl"],
};
// For the tests of the dashboard in a real browser.
const BROWSER: Need = Need {
    program: "chromedriver",
    does: &[],
    packages: &["chromium", "chromium-driver"],
};
// These validate files of the release package.
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
// For tests of `turno top` at a terminal.
const TMUX: Need = Need {
    program: "tmux",
    does: &[],
    packages: &["tmux"],
};
// A load generator for the server, and a peer to compare its locks with.
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

/// Programs that the tests need.
pub const TEST: &[Need] = &[
    COMPILER, POSTGRES, PGBOUNCER, FAKETIME, REDIS, RABBITMQ, NATS, PYTHON, NPM, JAVA, JDBC, CURL,
    OPENSSL, BROWSER, TMUX, PROMTOOL, SYSTEMD, MAN,
];

/// Programs that a build needs.
pub const BUILD: &[Need] = &[COMPILER];

/// Programs that the benchmarks on PostgreSQL alone need. pgbench is in the package of the server.
pub const BENCH_POSTGRES: &[Need] = &[COMPILER, POSTGRES];

/// Programs that the benchmarks need. Without Python or npm, the peers in other languages are left out.
pub const BENCH: &[Need] = &[
    COMPILER, POSTGRES, PGBOUNCER, FAKETIME, REDIS, RABBITMQ, NATS, WRK, ETCD,
];

/// Folder in which Debian installs the programs of each PostgreSQL version, outside the `PATH`.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Runs apt without questions, and without starting installed servers: the tests start private ones. Packages check the run
/// level where init scripts start servers. systemd ignores the run level, but `systemctl` does nothing if it believes to be
/// offline.
const APT_ENVIRONMENT: [&str; 3] = [
    "DEBIAN_FRONTEND=noninteractive",
    "RUNLEVEL=1",
    "SYSTEMD_OFFLINE=1",
];

/// Installs missing programs, or fails with the command that would.
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

/// Returns the folders to search for programs: the `PATH`, the folders for servers that a user's `PATH` may lack, and
/// PostgreSQL's own.
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
    let manual = format!(
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
        bail!("only root may install packages: run `sudo sh -c '{manual}'`");
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
            "`{}` ended with {status}: try `{manual}` by hand",
            words.join(" ")
        );
        Ok(())
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

/// Returns the prefix that runs a command as root; `None` if that needs a password.
fn root_prefix() -> Option<&'static [&'static str]> {
    if is_root() {
        Some(&[])
    } else if succeeds("sudo", &["-n", "true"]) {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    succeeds("sh", &["-c", "[ \"$(id -u)\" = 0 ]"])
}

/// Runs a program without output, and returns whether it succeeded.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
