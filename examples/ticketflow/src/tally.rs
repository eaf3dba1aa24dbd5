//! Comparison of tickets with the handled events.

use anyhow::Result;
use sqlx::Row;

use crate::db::{Db, with_pool};

/// Counts of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) tickets: i64,
    /// Number of expected events.
    pub(crate) expected: i64,
    /// Number of times that a consumer handled an event.
    pub(crate) handled: i64,
    /// Number of expected events that were not handled.
    pub(crate) lost: i64,
    /// Number of handled events about changes that were never committed.
    pub(crate) phantom: i64,
    /// Number of surplus handlings.
    pub(crate) doubled: i64,
}

impl Tally {
    pub(crate) async fn of(db: &Db) -> Result<Self> {
        let sql = include_str!("../sql/tally.sql");
        Ok(with_pool!(db, |pool| {
            let row = sqlx::query(sql).fetch_one(pool).await?;
            Tally {
                tickets: row.try_get(0)?,
                expected: row.try_get(1)?,
                handled: row.try_get(2)?,
                lost: row.try_get(3)?,
                phantom: row.try_get(4)?,
                doubled: row.try_get(5)?,
            }
        }))
    }

    /// Returns the difference to an earlier tally.
    pub(crate) fn since(self, before: Tally) -> Self {
        Tally {
            tickets: self.tickets - before.tickets,
            expected: self.expected - before.expected,
            handled: self.handled - before.handled,
            lost: self.lost - before.lost,
            phantom: self.phantom - before.phantom,
            doubled: self.doubled - before.doubled,
        }
    }
}
