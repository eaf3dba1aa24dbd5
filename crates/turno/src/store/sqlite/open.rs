//! Opens a database: durable, in WAL mode, waiting for other processes.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::classify;
use crate::error::{Error, Kind, Result};

/// Maximum number of attempts to open a database that another process writes, a few milliseconds apart.
const TIMEOUT: i32 = 2000;
/// Number of pages in the log, of 4 KiB each, after which they are copied into the database. That takes two further syncs and
/// copies each page once, so it pays to do it less often than SQLite's default, 1000.
const CHECKPOINT_PAGES: u32 = 4000;
/// Number of prepared statements that a connection caches.
const STATEMENTS: usize = 64;

/// Location of a database.
#[derive(Debug, Clone)]
pub(super) enum Location {
    /// In a file, for many processes.
    File(PathBuf),
    /// In memory, for this process and one connection.
    Memory,
}

impl Location {
    pub(super) fn parse(path: &str) -> Result<Self> {
        let path = path.strip_prefix("//").unwrap_or(path);
        match path {
            "" => Err(Error::invalid(
                "store",
                "the store's URL names no file: it looks like sqlite:app.db",
            )),
            ":memory:" => Ok(Location::Memory),
            file => Ok(Location::File(PathBuf::from(file))),
        }
    }

    /// Returns whether the database exists. Does not create it.
    pub(super) fn exists(&self) -> bool {
        match self {
            Location::Memory => true,
            Location::File(file) => file.exists(),
        }
    }

    pub(super) fn connect(&self) -> Result<Connection> {
        let db = match self {
            Location::Memory => Connection::open_in_memory().map_err(classify)?,
            Location::File(file) => {
                create_private(file);
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                    | OpenFlags::SQLITE_OPEN_CREATE
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(file, flags)
                    .map_err(|error| cannot_open(file, error))?
            }
        };
        db.busy_handler(Some(wait_for_others)).map_err(classify)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        // Without it, a statement with `limit ?` is parsed again whenever it is used.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .map_err(classify)?;
        if matches!(self, Location::File(_)) {
            let mode = into_wal(&db)?;
            if mode != "wal" {
                return Err(Error::new(
                    Kind::Refused,
                    format!(
                        "the database cannot use a write-ahead log (its journal mode stays {mode}): put it on a local disk that can be written"
                    ),
                ));
            }
        }
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
            .map_err(classify)?;
        // A call returns only after the log is on the disk.
        db.pragma_update(None, "synchronous", "full")
            .map_err(classify)?;
        Ok(db)
    }
}

/// Creates a missing file for its owner alone: payloads and answers may be confidential. SQLite gives its log the same mode.
fn create_private(file: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // A file that is there keeps its mode; a file that cannot be created is reported by SQLite, with the reason.
    let _ = options.open(file);
}

/// Retries, because another process may open the database or recover its log at the same time.
fn into_wal(db: &Connection) -> Result<String> {
    for tried in 0..TIMEOUT {
        match db.query_row("pragma journal_mode = wal", [], |row| row.get(0)) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                wait_for_others(tried);
            }
            answer => return answer.map_err(classify),
        }
    }
    Err(Error::new(
        Kind::Unavailable,
        "the database is busy with another process: try again in a moment",
    ))
}

/// Pauses of a connection that waits for another process's transaction: growing, jittered and limited.
pub(super) fn wait_for_others(tried: i32) -> bool {
    let longest = 500 + 200 * u64::try_from(tried).unwrap_or(0).min(50);
    thread::sleep(Duration::from_micros(fastrand::u64(200..=longest)));
    tried < TIMEOUT
}

fn cannot_open(file: &std::path::Path, error: rusqlite::Error) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) {
        return Error::caused(
            Kind::Refused,
            format!(
                "{} cannot be opened or made: check that its folder exists and can be written",
                file.display()
            ),
            error,
        );
    }
    classify(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `normal`, a commit could be lost with the machine's power.
    #[test]
    fn a_commit_is_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let file = Location::File(folder.path().join("test.db"));
        for location in [file, Location::Memory] {
            let db = location.connect().unwrap();
            let synchronous = db.query_row("pragma synchronous", [], |row| row.get(0));
            assert_eq!(synchronous, Ok(2), "{location:?}");
        }
    }
}
