//! Classifies PostgreSQL's errors. Only this module knows SQLSTATE codes.

use std::io;
use std::time::Duration;

use tokio_postgres::error::DbError;

use super::refusal;
use super::rights;
use crate::error::{Error, Kind};

/// Raised by `turno.lock_guard`, `turno.inbox_complete` and `turno.once_complete` for a stale token or claim.
const STALE: &str = "TN410";

pub(crate) fn classify(error: tokio_postgres::Error) -> Error {
    let Some(code) = error.code().cloned() else {
        // No code: the connection, not the server.
        return unreachable(error);
    };
    let said = error
        .as_db_error()
        .map_or_else(|| error.to_string(), |db| db.message().to_owned());
    let hint = error
        .as_db_error()
        .and_then(|db| db.hint())
        .map(str::to_owned);
    let (kind, message) = classify_code(code.code(), said, hint);
    Error::caused(kind, message, error)
}

/// Returns the error for a session that could not be established.
pub(super) fn unreachable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let (kind, message) = refusal::explain(&error);
    Error::caused(kind, message, error)
}

/// Returns the error for a session that was not established in time.
pub(super) fn silent(timeout: Duration) -> Error {
    let why = format!("no answer within {timeout:?}");
    unreachable(io::Error::new(io::ErrorKind::TimedOut, why))
}

/// Returns the SQLSTATE of an error, if the server sent one.
pub(super) fn sqlstate(error: &Error) -> Option<&str> {
    answer(error).map(|error| error.code().code())
}

/// Returns the server's error in an error, if there is one.
pub(super) fn answer(error: &Error) -> Option<&DbError> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
            return error.as_db_error();
        }
        cause = error.source();
    }
    None
}

/// Classifies a SQLSTATE with its message and hint, for every driver.
pub(crate) fn classify_code(code: &str, said: String, hint: Option<String>) -> (Kind, String) {
    let refused = |next: &str| (Kind::Refused, format!("{said}: {next}"));
    match code {
        STALE => (
            Kind::Lost,
            said + ": roll back, and repeat the work when it is your turn again",
        ),
        "22023" => (
            Kind::invalid(field(&said)),
            format!("{said}: {}", hint.unwrap_or_default()),
        ),
        // Read-only, full, missing rights: an operator must fix it.
        "25006" => {
            refused("the database is read-only; connect to the primary, or end its read-only mode")
        }
        // The message names what an operator must remove first. An error for a missing right of Turno's own functions has its
        // own hint.
        "2BP01" => (
            Kind::Refused,
            format!("{said}: {}", hint.unwrap_or_default()),
        ),
        "42501" if hint.is_some() => (
            Kind::Refused,
            format!("{said}: {}", hint.unwrap_or_default()),
        ),
        "53100" => refused("the database's disk is full; free some space"),
        "42501" => refused(&rights::advice(&said)),
        "28P01" => refused(
            "set the right password in PGPASSWORD, in a password file (~/.pgpass) or in the URL, and check the user",
        ),
        "28000" if said.contains("certificate") => refused(
            "set sslcert and sslkey to a client certificate of this user that the server trusts",
        ),
        "28000" if said.contains("no encryption") => refused(
            "the server may accept encrypted connections only; set sslmode=require or stronger, and check user, database and pg_hba.conf",
        ),
        "28000" => refused("check user, database and pg_hba.conf"),
        "3D000" => refused("create the database first"),
        "3F000" | "42883" | "42P01" | "42704" => (
            Kind::Schema,
            format!("{said}: run `turno migrate` on this database"),
        ),
        // A restart, a failover, a deadlock, too many connections: the same call may succeed later.
        "57P01" | "57P02" | "57P03" | "40001" | "40P01" | "55P03" | "53300" | "25P02" | "57014" => {
            (Kind::Unavailable, format!("{said}: try again in a moment"))
        }
        other if other.starts_with("08") => {
            (Kind::Unavailable, format!("{said}: try again in a moment"))
        }
        other => (Kind::Broken, format!("{said} (SQLSTATE {other})")),
    }
}

/// Returns the field with which a message of the functions' checks begins.
fn field(said: &str) -> &'static str {
    const FIELDS: [&str; 43] = [
        "queue",
        "worker",
        "items",
        "payload",
        "key",
        "priority",
        "max_attempts",
        "delay",
        "run_at",
        "group",
        "lease",
        "limit",
        "claim",
        "retry_in",
        "request",
        "resources",
        "resource",
        "owner",
        "ttl",
        "user",
        "service",
        "description",
        "wait",
        "mode",
        "permits",
        "min_hold",
        "max_hold",
        "reason",
        "table",
        "id",
        "shape",
        "suffix",
        "timeout",
        "fingerprint",
        "unknown",
        "scope",
        "quota",
        "state",
        "name",
        "role",
        "prefix",
        "hash",
        "setting",
    ];
    FIELDS
        .into_iter()
        .find(|field| said.starts_with(field))
        .unwrap_or("argument")
}
