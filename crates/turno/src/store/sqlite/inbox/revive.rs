//! Operator actions on items: requeue or discard failed ones, reset those that are held for too long.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row};

use super::super::classify;
use super::super::history::OperatorAction;
use super::super::rows::{exec, many};
use super::claim::ClaimRow;
use super::tally::Tally;
use super::{INBOX_ERROR_FORGET, find_queue, held, line, next_of_group};
use crate::clock::as_us;
use crate::error::Result;
use crate::store::*;

/// A failed item, and its group.
pub(crate) type Failed = (i64, Option<String>);

pub(crate) fn requeue(db: &Connection, ask: &InboxFailedItems, now: i64) -> Result<u64> {
    decide(
        db,
        ask,
        HistoryEvent::Requeued,
        now,
        |queue, failed, tally| revive(db, queue, failed, tally, now),
    )
}

pub(crate) fn discard(db: &Connection, ask: &InboxFailedItems, now: i64) -> Result<u64> {
    decide(
        db,
        ask,
        HistoryEvent::Discarded,
        now,
        |queue, (id, _), tally| forget(db, queue, id, tally, now),
    )
}

/// Applies an operator action to failed items, and records it. Returns the number of items.
fn decide(
    db: &Connection,
    ask: &InboxFailedItems,
    event: HistoryEvent,
    now: i64,
    apply: impl Fn(i64, Failed, &mut Tally) -> Result<()>,
) -> Result<u64> {
    let Some(queue) = find_queue(db, &ask.queue)? else {
        return Ok(0);
    };
    let mut count = 0;
    let mut tally = Tally::default();
    match &ask.ids {
        None => {
            let oldest = query!(inbox_failed_oldest);
            for failed in many(db, oldest, (queue, ask.limit), failed_row)? {
                apply(queue, failed, &mut tally)?;
                count += 1;
            }
        }
        // One after the other, so that a repeated id counts once.
        Some(ids) => {
            let mut find = db
                .prepare_cached(query!(inbox_failed_one))
                .map_err(classify)?;
            for id in ids {
                let failed = find.query_row((queue, id.0), failed_row).optional();
                if let Some(failed) = failed.map_err(classify)? {
                    apply(queue, failed, &mut tally)?;
                    count += 1;
                }
            }
        }
    }
    tally.write(db)?;
    OperatorAction {
        part: Part::Inbox,
        event,
        resource: &ask.queue,
        count,
        user: ask.user.as_deref(),
        reason: ask.reason.as_deref(),
    }
    .record(db, now)
}

pub(crate) fn failed_row(row: &Row<'_>) -> rusqlite::Result<Failed> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Returns a failed item to its old place in its group, before the items that were pushed later.
pub(crate) fn revive(
    db: &Connection,
    queue: i64,
    (id, group): Failed,
    tally: &mut Tally,
    now: i64,
) -> Result<()> {
    let line = if group.is_some() {
        line::BEHIND
    } else {
        line::TIMED
    };
    exec(db, query!(inbox_requeue), (id, line, now))?;
    tally.of(queue).failed -= 1;
    tally.waits(queue, Some(now));
    if let Some(group) = group {
        exec(db, query!(inbox_group_block), (queue, &group))?;
        next_of_group(db, queue, &group)?;
    }
    Ok(())
}

/// Deletes a failed item. Its group has continued when it failed. Its unique key is kept as that of a completed item, so that a
/// repeated push is still a duplicate.
fn forget(db: &Connection, queue: i64, id: i64, tally: &mut Tally, now: i64) -> Result<()> {
    exec(db, query!(inbox_key_done), (queue, id, now))?;
    delete(db, id)?;
    tally.of(queue).failed -= 1;
    Ok(())
}

/// Deletes items that failed before a time, at most `batch` of them, and records it queue by queue. Returns how many.
pub(in crate::store::sqlite) fn sweep_failed(
    db: &Connection,
    before: i64,
    batch: u32,
    now: i64,
) -> Result<u64> {
    let old = query!(sweep_inbox_failed);
    let failed: Vec<(i64, i64, String)> = many(db, old, (before, batch), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let mut tally = Tally::default();
    let mut of_queue: BTreeMap<&str, u64> = BTreeMap::new();
    for (queue, id, name) in &failed {
        forget(db, *queue, *id, &mut tally, now)?;
        *of_queue.entry(name).or_default() += 1;
    }
    tally.write(db)?;
    for (queue, count) in of_queue {
        OperatorAction {
            part: Part::Inbox,
            event: HistoryEvent::Discarded,
            resource: queue,
            count,
            user: None,
            reason: Some(SWEPT_FAILED),
        }
        .record(db, now)?;
    }
    Ok(failed.len() as u64)
}

/// Deletes an item and its errors.
pub(crate) fn delete(db: &Connection, id: i64) -> Result<()> {
    exec(db, query!(inbox_item_delete), [id])?;
    exec(db, INBOX_ERROR_FORGET, (id, i64::MAX)).map(drop)
}

pub(crate) fn reset(db: &Connection, ask: &InboxReset, now: i64) -> Result<u64> {
    let Some(queue) = find_queue(db, &ask.queue)? else {
        return Ok(0);
    };
    let claimed_by = now.saturating_sub(as_us(ask.older_than));
    let claims = many(
        db,
        query!(inbox_claim_live),
        (queue, claimed_by),
        ClaimRow::from_row,
    )?;
    let mut reset = 0;
    let mut tally = Tally::default();
    for claim in &claims {
        if reset >= u64::from(ask.limit) {
            break;
        }
        for held in held::of_claim(db, claim)? {
            held.give_back(db, &mut tally, now)?;
            reset += 1;
        }
    }
    tally.write(db)?;
    OperatorAction {
        part: Part::Inbox,
        event: HistoryEvent::Reset,
        resource: &ask.queue,
        count: reset,
        user: ask.user.as_deref(),
        reason: ask.reason.as_deref(),
    }
    .record(db, now)
}
