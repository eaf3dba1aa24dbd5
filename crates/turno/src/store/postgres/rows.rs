//! Reads outcomes from the rows of the functions.

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::interval::Interval;
use crate::error::{Error, Kind, Result};
use crate::store::*;

/// Returns the arguments `mode` and `permits`.
pub(super) fn mode(mode: LockMode) -> (&'static str, Option<i32>) {
    match mode {
        LockMode::Exclusive => ("exclusive", None),
        LockMode::Shared => ("shared", None),
        LockMode::Permits(permits) => ("shared", Some(count_in(permits))),
    }
}

/// Returns a count as an argument. A larger one exceeds every limit anyway.
pub(super) fn count_in(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T> {
    row.try_get(column).map_err(not_as_expected)
}

pub(super) fn not_as_expected(error: tokio_postgres::Error) -> Error {
    Error::caused(
        Kind::Schema,
        format!("{error}: the schema may be of another Turno; run `turno migrate`"),
        error,
    )
}

pub(super) fn count(row: &Row, column: &str) -> Result<u32> {
    Ok(u32::try_from(get::<i32>(row, column)?).unwrap_or(0))
}

pub(super) fn big_count(row: &Row, column: &str) -> Result<u64> {
    Ok(u64::try_from(get::<i64>(row, column)?).unwrap_or(0))
}

fn attribution(row: &Row) -> Result<Attribution> {
    Ok(Attribution {
        user: get(row, "user")?,
        service: get(row, "service")?,
        description: get(row, "description")?,
        host: get(row, "host")?,
        pid: get(row, "pid")?,
    })
}

pub(super) fn outcome(row: &Row) -> Result<LockOutcome> {
    let resource: String = get(row, "resource")?;
    let remaining = get::<Interval>(row, "remaining")?.0;
    let word: &str = get(row, "outcome")?;
    if word == "busy" {
        let times: (Option<Timestamp>, Option<Timestamp>) =
            (get(row, "acquired_at")?, get(row, "expires_at")?);
        let holder = match times {
            (Some(acquired_at), Some(expires_at)) => Some(Holder {
                user: get(row, "user")?,
                service: get(row, "service")?,
                description: get(row, "description")?,
                acquired_at,
                expires_at,
            }),
            _ => None,
        };
        return Ok(LockOutcome::Busy(Busy {
            resource,
            holder,
            remaining,
        }));
    }
    let reentered = match word {
        "acquired" => false,
        "reentered" => true,
        other => return Err(unexpected("outcome", other)),
    };
    Ok(LockOutcome::Acquired(Grant {
        resource,
        owner: get(row, "owner")?,
        token: Token(get(row, "token")?),
        holds: count(row, "holds")?,
        acquired_at: get(row, "acquired_at")?,
        expires_at: get(row, "expires_at")?,
        remaining,
        reentered,
    }))
}

/// Returns the place of the caller of this row in its batch, from zero.
pub(super) fn place(row: &Row) -> Option<usize> {
    usize::try_from(row.try_get::<_, i64>("place").ok()?)
        .ok()?
        .checked_sub(1)
}

/// Returns whether the caller of this row must make its call alone.
pub(super) fn is_later(row: &Row) -> bool {
    row.try_get::<_, &str>("outcome")
        .is_ok_and(|outcome| outcome == "later")
}

/// Returns whether another transaction claims from the queue: then the only row of a claim has no id.
pub(super) fn is_claim_later(row: &Row) -> bool {
    row.columns()
        .first()
        .is_some_and(|column| column.name() == "id")
        && matches!(row.try_get::<_, Option<i64>>(0), Ok(None))
}

pub(super) fn renewal(row: &Row) -> Result<RenewOutcome> {
    match get(row, "outcome")? {
        "renewed" => Ok(RenewOutcome::Renewed {
            expires_at: get(row, "expires_at")?,
            remaining: get::<Interval>(row, "remaining")?.0,
        }),
        "lost" => Ok(RenewOutcome::Lost),
        other => Err(unexpected("outcome", other)),
    }
}

pub(super) fn ending(row: &Row) -> Result<ReleaseOutcome> {
    match get(row, "outcome")? {
        "released" => Ok(ReleaseOutcome::Released {
            holds: count(row, "holds")?,
        }),
        "lost" => Ok(ReleaseOutcome::Lost),
        other => Err(unexpected("outcome", other)),
    }
}

pub(super) fn waiting(row: &Row) -> Result<WaitOutcome> {
    Ok(if get(row, "lock_wait")? {
        WaitOutcome::Registered
    } else {
        WaitOutcome::TryAgain
    })
}

pub(super) fn broken(row: &Row) -> Result<BreakOutcome> {
    match get(row, "lock_break")? {
        "broken" => Ok(BreakOutcome::Broken),
        "not_held" => Ok(BreakOutcome::NotHeld),
        other => Err(unexpected("outcome", other)),
    }
}

pub(super) fn holder(row: &Row) -> Result<LockHolder> {
    Ok(LockHolder {
        resource: get(row, "resource")?,
        mode: get(row, "mode")?,
        owner: get(row, "owner")?,
        token: Token(get(row, "token")?),
        holds: count(row, "holds")?,
        attribution: attribution(row)?,
        acquired_at: get(row, "acquired_at")?,
        expires_at: get(row, "expires_at")?,
        remaining: get::<Interval>(row, "remaining")?.0,
        waiters: big_count(row, "waiters")?,
    })
}

pub(super) fn status(resource: &str, rows: &[Row]) -> Result<LockStatus> {
    let mut status = LockStatus {
        resource: resource.to_owned(),
        holders: Vec::new(),
        waiters: 0,
    };
    for row in rows {
        status.waiters = big_count(row, "waiters")?;
        if get(row, "locked")? {
            status.holders.push(holder(row)?);
        }
    }
    Ok(status)
}

pub(super) fn history(row: &Row) -> Result<HistoryEntry> {
    Ok(HistoryEntry {
        id: get(row, "id")?,
        at: get(row, "at")?,
        part: Part::parse(get(row, "part")?)?,
        event: HistoryEvent::parse(get(row, "event")?)?,
        resource: get(row, "resource")?,
        count: get::<Option<i64>>(row, "count")?.and_then(|count| u64::try_from(count).ok()),
        token: get::<Option<i64>>(row, "token")?.map(Token),
        mode: get(row, "mode")?,
        owner: get(row, "owner")?,
        attribution: attribution(row)?,
        acquired_at: get(row, "acquired_at")?,
        expires_at: get(row, "expires_at")?,
        actor: get(row, "actor")?,
        reason: get(row, "reason")?,
    })
}

pub(super) fn swept(row: &Row) -> Result<Swept> {
    Ok(Swept {
        expired: big_count(row, "expired")?,
        purged: big_count(row, "purged")?,
        waiters: big_count(row, "waiters")?,
        history: big_count(row, "history")?,
        completed: big_count(row, "completed")?,
        archived: big_count(row, "archived")?,
        seen: big_count(row, "seen")?,
        once: big_count(row, "once")?,
        failed: big_count(row, "failed")?,
    })
}
