//! Changes of counters, added up during a call and written once at its end.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::super::rows::{exec, one};
use super::{INBOX_CLAIM_RELEASE, INBOX_QUEUE_COUNT};
use crate::error::Result;

/// The spans of `turno_inbox_due`, as bits of a time in microseconds.
pub(crate) const SPANS: [i64; 3] = [16, 28, 40];

/// Changes of counters that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    queues: BTreeMap<i64, Counts>,
    due: BTreeMap<(i64, i64), i64>,
    claims: BTreeMap<i64, i64>,
}

/// Changes of the counters of a queue.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub waiting: i64,
    pub held: i64,
    pub failed: i64,
    pub completed: i64,
}

impl Tally {
    pub(crate) fn of(&mut self, queue: i64) -> &mut Counts {
        self.queues.entry(queue).or_default()
    }

    /// Counts an item that waits, perhaps for its due time.
    pub(crate) fn waits(&mut self, queue: i64, due: Option<i64>) {
        self.of(queue).waiting += 1;
        if let Some(due) = due {
            *self.due.entry((queue, due)).or_default() += 1;
        }
    }

    /// Counts an item that no longer waits.
    pub(crate) fn stops_waiting(&mut self, queue: i64, due: Option<i64>) {
        self.of(queue).waiting -= 1;
        if let Some(due) = due {
            *self.due.entry((queue, due)).or_default() -= 1;
        }
    }

    /// Counts an item that has left its claim.
    pub(crate) fn leaves(&mut self, queue: i64, claim: i64) {
        self.of(queue).held -= 1;
        *self.claims.entry(claim).or_default() += 1;
    }

    pub(crate) fn write(self, db: &Connection) -> Result<()> {
        for (queue, more) in self.queues {
            let counts = (queue, more.waiting, more.held, more.failed, more.completed);
            exec(db, INBOX_QUEUE_COUNT, counts)?;
        }
        for (claim, items) in self.claims {
            one::<String>(db, INBOX_CLAIM_RELEASE, (claim, items))?;
        }
        for span in SPANS {
            let mut slots = BTreeMap::<_, i64>::new();
            for ((queue, due), items) in &self.due {
                *slots.entry((*queue, due >> span)).or_default() += items;
            }
            for ((queue, slot), items) in slots {
                write_slot(db, (queue, span, slot), items)?;
            }
        }
        Ok(())
    }
}

fn write_slot(db: &Connection, slot: (i64, i64, i64), items: i64) -> Result<()> {
    if items == 0 {
        return Ok(());
    }
    let (queue, span, number) = slot;
    let count = (queue, span, number, items);
    exec(db, query!(inbox_due_count), count)?;
    if items < 0 {
        exec(db, query!(inbox_due_delete), slot)?;
    }
    Ok(())
}
