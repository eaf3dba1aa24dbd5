//! Rows of the tables, and helpers that run statements.

use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, named_params};
use uuid::Uuid;

use super::classify;
use crate::clock::{between_us, from_us};
use crate::error::Result;
use crate::store::*;

/// Number of releases without a hold that a lease remembers.
const REMEMBERED: usize = 8;
/// Length of an id as text.
const ID_LENGTH: usize = 36;

/// A lock row, or a shared hold: they have the same columns.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub resource: String,
    pub token: Token,
    pub mode: String,
    pub owner: String,
    pub holds: u32,
    pub acquired_at: i64,
    pub expires_at: i64,
    pub min_until: Option<i64>,
    pub max_until: Option<i64>,
    pub attribution: Attribution,
    pub hold_ids: String,
    pub requests: String,
    /// Whether it excludes other owners, by rule `lock_is_held`.
    pub is_held: bool,
}

impl Held {
    /// Reads columns by position, which is the same in every query: each name costs a search.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Held {
            resource: row.get(0)?,
            token: Token(row.get(1)?),
            mode: row.get(2)?,
            owner: row.get(3)?,
            holds: row.get(4)?,
            acquired_at: row.get(5)?,
            expires_at: row.get(6)?,
            min_until: row.get(7)?,
            max_until: row.get(8)?,
            attribution: Attribution {
                user: row.get(9)?,
                service: row.get(10)?,
                description: row.get(11)?,
                host: row.get(12)?,
                pid: row.get(13)?,
            },
            hold_ids: row.get(14)?,
            requests: row.get(15)?,
            is_held: row.get(16)?,
        })
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.mode == "exclusive"
    }

    /// Returns whether its lease has expired. Whether another owner may take it over is a separate rule: see `queries/rules.sql`.
    pub(super) fn has_expired(&self, now: i64) -> bool {
        self.expires_at <= now
    }

    /// Returns whether renewals may extend it.
    pub(super) fn may_last(&self, now: i64) -> bool {
        self.max_until.is_none_or(|until| until > now)
    }

    /// Returns the later of the current expiry and a new one, within max_hold.
    pub(super) fn later(&self, expires_at: i64) -> i64 {
        self.expires_at
            .max(expires_at.min(self.max_until.unwrap_or(i64::MAX)))
    }

    /// Returns whether this request has taken one of the holds.
    pub(super) fn has_hold(&self, request: Uuid) -> bool {
        self.hold_ids.contains(&request.to_string())
    }

    /// Returns whether this request has taken a hold other than the first.
    pub(super) fn is_again(&self, request: Uuid) -> bool {
        !self.hold_ids.starts_with(&request.to_string())
    }

    /// Releases one hold: the given one, or the newest, and then remembers the request. Returns false for a repetition.
    pub(super) fn give_back(&mut self, ask: &LockRelease) -> bool {
        match ask.hold {
            Some(hold) if !self.has_hold(hold) => return false,
            Some(hold) => self.hold_ids = self.hold_ids.replacen(&hold.to_string(), "", 1),
            None if self.requests.contains(&ask.request.to_string()) => return false,
            None => {
                self.hold_ids
                    .truncate(self.hold_ids.len().saturating_sub(ID_LENGTH));
                self.requests.push_str(&ask.request.to_string());
                let excess = self.requests.len().saturating_sub(REMEMBERED * ID_LENGTH);
                self.requests.drain(..excess);
            }
        }
        self.holds -= 1;
        true
    }

    pub(super) fn granted(self, now: i64, reentered: bool) -> LockOutcome {
        LockOutcome::Acquired(Grant {
            resource: self.resource,
            owner: self.owner,
            token: self.token,
            holds: self.holds,
            acquired_at: from_us(self.acquired_at),
            expires_at: from_us(self.expires_at),
            remaining: between_us(now, self.expires_at),
            reentered,
        })
    }

    pub(super) fn busy(self, now: i64) -> Busy {
        let until = if self.holds > 0 {
            self.expires_at
        } else {
            self.min_until.unwrap_or(0)
        };
        if until <= now {
            // Free, but reserved for an earlier waiter.
            return Busy {
                resource: self.resource,
                holder: None,
                remaining: Duration::ZERO,
            };
        }
        Busy {
            resource: self.resource,
            holder: Some(Holder {
                user: self.attribution.user,
                service: self.attribution.service,
                description: self.attribution.description,
                acquired_at: from_us(self.acquired_at),
                expires_at: from_us(until),
            }),
            remaining: between_us(now, until),
        }
    }
}

/// How a hold ends, for its entry in the history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending<'a> {
    pub event: HistoryEvent,
    pub actor: Option<&'a str>,
    pub reason: Option<&'a str>,
    pub request: Option<Uuid>,
}

impl Ending<'_> {
    pub(super) fn of(event: HistoryEvent) -> Self {
        Ending {
            event,
            actor: None,
            reason: None,
            request: None,
        }
    }
}

pub(super) fn attribution(row: &Row<'_>) -> rusqlite::Result<Attribution> {
    Ok(Attribution {
        user: row.get("user")?,
        service: row.get("service")?,
        description: row.get("description")?,
        host: row.get("host")?,
        pid: row.get("pid")?,
    })
}

/// Returns a counter, within its range: one wrong value must not fail a claim of many items.
pub(super) fn counter(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let value: i64 = row.get(column)?;
    Ok(u32::try_from(value.max(0)).unwrap_or(u32::MAX))
}

/// Returns a prepared statement from the connection's cache.
pub(super) fn prepare<'db>(
    db: &'db Connection,
    sql: &str,
) -> rusqlite::Result<CachedStatement<'db>> {
    #[cfg(test)]
    let sql = &super::queries::changed::apply(sql);
    db.prepare_cached(sql)
}

pub(super) fn exec(db: &Connection, sql: &str, params: impl Params) -> Result<u64> {
    prepare(db, sql)
        .and_then(|mut statement| statement.execute(params))
        .map(|rows| rows as u64)
        .map_err(classify)
}

pub(super) fn one<T: rusqlite::types::FromSql>(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<T> {
    prepare(db, sql)
        .and_then(|mut statement| statement.query_row(params, |row| row.get(0)))
        .map_err(classify)
}

/// Returns the first column of the first row, if there is a row.
pub(super) fn first<T: rusqlite::types::FromSql>(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Option<T>> {
    prepare(db, sql)
        .and_then(|mut statement| statement.query_row(params, |row| row.get(0)).optional())
        .map_err(classify)
}

pub(super) fn lock_row(db: &Connection, sql: &str, params: impl Params) -> Result<Option<Held>> {
    prepare(db, sql)
        .and_then(|mut statement| statement.query_row(params, Held::from_row).optional())
        .map_err(classify)
}

pub(super) fn lock_rows(db: &Connection, sql: &str, params: impl Params) -> Result<Vec<Held>> {
    many(db, sql, params, Held::from_row)
}

pub(super) fn many<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    prepare(db, sql)
        .and_then(|mut statement| statement.query_map(params, map)?.collect())
        .map_err(classify)
}

pub(super) fn record(db: &Connection, held: &Held, ending: Ending<'_>, now: i64) -> Result<()> {
    let who = &held.attribution;
    exec(
        db,
        query!(history_insert),
        named_params! {
            ":now": now, ":event": ending.event.as_str(), ":resource": held.resource, ":token": held.token.0,
            ":mode": held.mode, ":owner": held.owner, ":user": who.user, ":service": who.service,
            ":description": who.description, ":host": who.host, ":pid": who.pid,
            ":acquired_at": held.acquired_at, ":expires_at": held.expires_at,
            ":actor": ending.actor, ":reason": ending.reason,
            ":request": ending.request.map(|request| request.to_string()),
        },
    )
    .map(drop)
}

pub(super) fn holder(row: &Row<'_>, now: i64) -> rusqlite::Result<LockHolder> {
    let expires_at = row.get("expires_at")?;
    Ok(LockHolder {
        resource: row.get("resource")?,
        mode: row.get("mode")?,
        owner: row.get("owner")?,
        token: Token(row.get("token")?),
        holds: row.get("holds")?,
        attribution: attribution(row)?,
        acquired_at: from_us(row.get("acquired_at")?),
        expires_at: from_us(expires_at),
        remaining: between_us(now, expires_at),
        waiters: row.get::<_, i64>("waiters")?.try_into().unwrap_or(0),
    })
}
