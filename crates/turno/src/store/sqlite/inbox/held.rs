//! Items in flight, and how they leave their claim without completion: to be retried, or as failed items.

use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use super::super::classify;
use super::super::rows::{counter, exec};
use super::claim::ClaimRow;
use super::tally::Tally;
use super::{INBOX_ERROR_FORGET, ids, line, next_of_group};
use crate::clock::as_us;
use crate::error::Result;
use crate::store::*;

/// Maximum length of a stored error, in bytes.
const ERROR_BYTES: usize = 4000;
/// Pause after the first failed attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, before jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
/// Error of the attempt of a crashed worker.
const VANISHED: &str = "the worker vanished: its claim was not extended in time";

/// An item that a claim holds.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    id: i64,
    claim: &'a ClaimRow,
    attempts: u32,
    abandoned: u32,
    max_attempts: u32,
    errors: u32,
    group: Option<String>,
}

/// How an attempt ends without success.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AttemptEnd<'a> {
    /// The handler has failed.
    Failed(&'a Failure),
    /// The worker has crashed.
    Abandoned,
}

/// State of an item after it has left its claim.
#[derive(Debug, Clone, Copy)]
enum NextState {
    Due(i64),
    Failed,
}

pub(crate) const HELD: &str = query!(inbox_held_find);

/// Returns the item, if the claim still holds it. `find` is [`HELD`].
pub(crate) fn find<'a>(
    find: &mut CachedStatement<'_>,
    id: i64,
    claim: &'a ClaimRow,
) -> Result<Option<Held<'a>>> {
    find.query_row((id, claim.id), |row: &Row<'_>| {
        Ok(Held {
            id,
            claim,
            attempts: counter(row, 0)?,
            abandoned: counter(row, 1)?,
            max_attempts: counter(row, 2)?,
            errors: counter(row, 3)?,
            group: row.get(4)?,
        })
    })
    .optional()
    .map_err(classify)
}

/// Returns the items that a claim still holds, in its order.
pub(crate) fn of_claim<'a>(db: &Connection, claim: &'a ClaimRow) -> Result<Vec<Held<'a>>> {
    let mut statement = db.prepare_cached(HELD).map_err(classify)?;
    let mut held = Vec::new();
    for id in ids::decode_ids(&claim.items)? {
        held.extend(find(&mut statement, id, claim)?);
    }
    Ok(held)
}

impl Held<'_> {
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Counts and records the attempt. The item is retried if it has attempts left.
    pub(crate) fn end(
        mut self,
        db: &Connection,
        tally: &mut Tally,
        end: AttemptEnd<'_>,
        now: i64,
    ) -> Result<()> {
        let next = match end {
            AttemptEnd::Abandoned => {
                self.count_doubt();
                self.record(db, "abandoned", VANISHED, now)?;
                match self.is_out_of_attempts() {
                    true => NextState::Failed,
                    false => NextState::Due(now),
                }
            }
            AttemptEnd::Failed(failure) => {
                self.attempts = self.attempts.saturating_add(1);
                self.record(db, "failed", &failure.error, now)?;
                if self.is_out_of_attempts() || failure.again == Again::Never {
                    NextState::Failed
                } else {
                    let pause = failure.retry_in.unwrap_or_else(|| self.pause());
                    NextState::Due(now.saturating_add(as_us(pause)))
                }
            }
        };
        self.let_go(db, tally, next, now)
    }

    /// Gives the item back, because it was not started or is taken away: due at once, without counting an attempt.
    pub(crate) fn give_back(self, db: &Connection, tally: &mut Tally, now: i64) -> Result<()> {
        self.defer(db, tally, Duration::ZERO, now)
    }

    /// Gives the item back, due after a delay.
    pub(crate) fn defer(
        self,
        db: &Connection,
        tally: &mut Tally,
        delay: Duration,
        now: i64,
    ) -> Result<()> {
        let due = now.saturating_add(as_us(delay));
        self.let_go(db, tally, NextState::Due(due), now)
    }

    /// Records that the outcome of the attempt is unknown. That is counted separately from failures.
    pub(crate) fn doubtful(mut self) -> Self {
        self.count_doubt();
        self
    }

    /// The number of doubts saturates. `attempts` is always the sum of failures and doubts.
    fn count_doubt(&mut self) {
        if self.abandoned < MAX_DOUBTS {
            self.attempts = self.attempts.saturating_add(1);
            self.abandoned += 1;
        }
    }

    fn is_out_of_attempts(&self) -> bool {
        self.max_attempts != u32::from(UNLIMITED_ATTEMPTS) && self.attempts >= self.max_attempts
    }

    /// Returns the pause before the next attempt: exponential, and jittered, so that items that failed together are not retried
    /// together.
    fn pause(&self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.attempts.saturating_sub(1));
        FIRST_PAUSE
            .saturating_mul(doubled)
            .min(LONGEST_PAUSE)
            .mul_f64(0.5 + fastrand::f64())
    }

    fn record(&mut self, db: &Connection, kind: &str, error: &str, now: i64) -> Result<()> {
        self.errors = self.errors.saturating_add(1);
        let error = &error[..error.floor_char_boundary(ERROR_BYTES)];
        exec(
            db,
            query!(inbox_error_insert),
            (
                self.id,
                self.errors,
                self.attempts,
                now,
                kind,
                error,
                &self.claim.worker,
            ),
        )?;
        let kept = u32::try_from(ERRORS_KEPT).unwrap_or(u32::MAX);
        if self.errors > kept {
            exec(db, INBOX_ERROR_FORGET, (self.id, self.errors - kept))?;
        }
        Ok(())
    }

    fn let_go(self, db: &Connection, tally: &mut Tally, next: NextState, now: i64) -> Result<()> {
        let queue = self.claim.queue;
        tally.leaves(queue, self.claim.id);
        let (line, due) = match next {
            NextState::Failed => {
                tally.of(queue).failed += 1;
                (line::FAILED, now)
            }
            NextState::Due(due) => {
                tally.waits(queue, Some(due));
                // In a group it goes behind, and then the first item of the group becomes claimable.
                let behind = self.group.is_some();
                (if behind { line::BEHIND } else { line::TIMED }, due)
            }
        };
        exec(
            db,
            query!(inbox_item_unclaim),
            (
                self.id,
                line,
                due,
                self.attempts,
                self.abandoned,
                self.errors,
                &self.claim.worker,
            ),
        )?;
        match &self.group {
            Some(group) => next_of_group(db, queue, group),
            None => Ok(()),
        }
    }
}
