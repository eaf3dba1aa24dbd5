//! Classifies SQLite's errors. Only this module knows its result codes.

use rusqlite::ErrorCode;

use crate::error::{Error, Kind};

pub(crate) fn classify(error: rusqlite::Error) -> Error {
    let (kind, next) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            Kind::Unavailable,
            "another process keeps it locked; end its transaction, or try again",
        ),
        Some(ErrorCode::ReadOnly) => (
            Kind::Refused,
            "the database is read-only; make its file and its folder writable",
        ),
        Some(ErrorCode::DiskFull) => (Kind::Refused, "the disk is full; free some space"),
        Some(ErrorCode::CannotOpen) => (
            Kind::Refused,
            "check that its folder exists and can be written",
        ),
        Some(ErrorCode::NotADatabase) => (
            Kind::Refused,
            "the file is no SQLite database; name another",
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            Kind::Refused,
            "the file is damaged; restore it from a backup",
        ),
        Some(ErrorCode::SystemIoFailure) => (
            Kind::Refused,
            "the disk reports errors; look at the system's log",
        ),
        Some(ErrorCode::PermissionDenied) => {
            (Kind::Refused, "the file may not be used by this user")
        }
        _ if error.to_string().contains("no such table: turno_") => {
            (Kind::Schema, "run `turno migrate` on this database")
        }
        _ => (Kind::Broken, "this should not happen; please report it"),
    };
    Error::caused(kind, format!("{error}: {next}"), error)
}
