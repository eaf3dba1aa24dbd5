//! Number of items in each state, from counters that every change updates.

use rusqlite::{Connection, Row};

use super::super::rows::{many, one};
use crate::clock::between_us;
use crate::error::Result;
use crate::store::*;

/// A queue's counts, in the order of the columns of query `inbox_stats`.
struct Counted {
    queue: i64,
    name: String,
    waiting: i64,
    held: i64,
    failed: i64,
    completed: i64,
    /// Held by claims that have expired.
    expired: i64,
    /// Waiting, with a due time.
    timed: i64,
    /// Waiting, with a due time that has come.
    due: i64,
}

impl Counted {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Counted {
            queue: row.get(0)?,
            name: row.get(1)?,
            waiting: row.get(2)?,
            held: row.get(3)?,
            failed: row.get(4)?,
            completed: row.get(5)?,
            expired: row.get(6)?,
            timed: row.get(7)?,
            due: row.get(8)?,
        })
    }

    fn stats(self, oldest_pending: Option<std::time::Duration>) -> QueueStats {
        let count = |items: i64| u64::try_from(items).unwrap_or(0);
        let scheduled = self.timed - self.due;
        QueueStats {
            queue: self.name,
            total: count(self.waiting + self.held + self.failed + self.completed),
            pending: count(self.waiting - scheduled + self.expired),
            scheduled: count(scheduled),
            processing: count(self.held - self.expired),
            completed: count(self.completed),
            failed: count(self.failed),
            oldest_pending,
        }
    }
}

pub(crate) fn stats(db: &Connection, ask: &InboxStats, now: i64) -> Result<Vec<QueueStats>> {
    let prefix = ask.queue.as_ref().map_or(ask.prefix.as_str(), |_| "");
    let counted = many(
        db,
        query!(inbox_stats),
        (&ask.queue, prefix, now),
        Counted::from_row,
    )?;
    let mut all = Vec::with_capacity(counted.len());
    for queue in counted {
        let oldest = query!(inbox_oldest_pending);
        let since: Option<i64> = one(db, oldest, (queue.queue, now))?;
        all.push(queue.stats(since.map(|since| between_us(since, now))));
    }
    Ok(all)
}
