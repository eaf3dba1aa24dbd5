//! Locations of the servers' programs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Folder in which Debian installs the programs of each PostgreSQL version, outside the `PATH`.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Folder of Debian's RabbitMQ scripts. Those in the `PATH` require their own user account.
const RABBITMQ_SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

/// Folders in which servers are installed and that an ordinary user's `PATH` may lack.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Environment variable with the folder of another version's `initdb` and `postgres`, which the tests then use.
const POSTGRES_BIN: &str = "TURNO_POSTGRES_BIN";

/// PostgreSQL's programs. A server of another version may come without clients; clients of any version work with it.
#[derive(Debug, Clone)]
pub(super) struct Postgres {
    pub(super) server: PathBuf,
    pub(super) clients: PathBuf,
}

/// Returns the newest installed version, or the server that `TURNO_POSTGRES_BIN` names.
pub(super) fn postgres() -> Result<Postgres> {
    let clients = newest_version(Path::new(POSTGRES_VERSIONS))
        .or_else(|| Some(find("initdb")?.canonicalize().ok()?.parent()?.to_owned()))
        .context(
            "PostgreSQL's programs (initdb, postgres, psql) were found neither in /usr/lib/postgresql nor in PATH: \
             install them with `apt-get install postgresql`",
        )?;
    let server = match env::var_os(POSTGRES_BIN) {
        Some(folder) => PathBuf::from(folder),
        None => clients.clone(),
    };
    ensure!(
        server.join("initdb").is_file(),
        "{} has no initdb: {POSTGRES_BIN} must name a folder with initdb and postgres",
        server.display()
    );
    Ok(Postgres { server, clients })
}

/// Returns the folder with `rabbitmq-server` and `rabbitmqctl`.
pub(super) fn rabbitmq() -> Result<PathBuf> {
    let scripts = PathBuf::from(RABBITMQ_SCRIPTS);
    if scripts.join("rabbitmq-server").is_file() {
        return Ok(scripts);
    }
    let script = program("rabbitmq-server", "rabbitmq-server")?;
    script
        .canonicalize()
        .ok()
        .and_then(|script| Some(script.parent()?.to_owned()))
        .with_context(|| format!("{} leads nowhere", script.display()))
}

/// Returns the path of a program, or an error that names its package.
pub(super) fn program(name: &str, package: &str) -> Result<PathBuf> {
    find(name).with_context(|| {
        format!(
            "the program {name} was not found in PATH: install it with `apt-get install {package}`"
        )
    })
}

fn newest_version(versions: &Path) -> Option<PathBuf> {
    fs::read_dir(versions)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse::<u32>().ok()?,
                entry.path().join("bin"),
            ))
        })
        .filter(|(_, bin)| bin.join("initdb").is_file())
        .max()
        .map(|(_, bin)| bin)
}

fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
