//! Tickets against what was told of them.

use anyhow::Result;
use sqlx::Row;

use crate::db::{Db, with_pool};

/// What became of the events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) tickets: i64,
    /// Events that there should be.
    pub(crate) expected: i64,
    /// How often a consumer handled one.
    pub(crate) handled: i64,
    /// Of those that there should be, how many nobody handled.
    pub(crate) lost: i64,
    /// Handled, and they tell of what never happened.
    pub(crate) phantom: i64,
    /// Handled once too often.
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

    /// What has come since an earlier look.
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
