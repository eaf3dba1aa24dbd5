//! What PostgreSQL's errors mean to Turno. The one place that knows SQLSTATE codes.

use std::io;
use std::time::Duration;

use tokio_postgres::error::DbError;

use super::refusal;
use super::rights;
use crate::error::{Error, Kind};

/// Raised by `turno.lock_guard`, `turno.inbox_complete` and `turno.once_complete` for what is stale.
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

/// No session was established, and why.
pub(super) fn unreachable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let (kind, message) = refusal::explain(&error);
    Error::caused(kind, message, error)
}

/// No session was established, because no answer came in time.
pub(super) fn silent(timeout: Duration) -> Error {
    let why = format!("no answer within {timeout:?}");
    unreachable(io::Error::new(io::ErrorKind::TimedOut, why))
}

/// The SQLSTATE that an error was made from, if the server sent one.
pub(super) fn sqlstate(error: &Error) -> Option<&str> {
    answer(error).map(|error| error.code().code())
}

/// The server's error that an error was made from, if it sent one.
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

/// What a SQLSTATE, its message and its hint mean, whichever driver reports them.
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
        // Read-only, full, and rights: nothing changes until a person changes it.
        "25006" => {
            refused("the database is read-only; connect to the primary, or end its read-only mode")
        }
        // What a person has to take away first is named in the message. A right that one of Turno's own functions misses
        // has a hint of its own.
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

/// The field that a message of the functions' checks begins with.
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
