//! Push and complete in the caller's own transaction: plain statements, one item at a time, that any driver
//! can run. `push_in` and `complete_in` run them with rusqlite; the functions for other drivers run the same statements
//! in the same order. The first statement of each is a write, so that a transaction that has just begun becomes the
//! writer at once and waits for the write lock instead of failing later.

use rusqlite::{Connection, OptionalExtension};

use super::super::classify;
use super::super::rows::{exec, one};
use super::push;
use crate::clock::as_us;
use crate::error::Result;
use crate::store::*;

pub(crate) const INBOX_QUEUE_MAKE: &str = query!(inbox_queue_make);
pub(crate) const INBOX_SERIAL: &str = query!(inbox_reserve_ids);
pub(crate) const INBOX_KEY: &str = query!(inbox_key_insert);
pub(crate) const INBOX_PUSH: &str = query!(inbox_push);
pub(crate) const INBOX_TX_DUE: &str = query!(inbox_due_count_all);
pub(crate) const INBOX_QUEUE_COUNT: &str = query!(inbox_queue_count);
pub(crate) const INBOX_TX_TAKE: &str = query!(inbox_complete_in);
pub(crate) const INBOX_CLAIM_RELEASE: &str = query!(inbox_claim_release);
pub(crate) const INBOX_DONE: &str = query!(inbox_done_insert);
pub(crate) const INBOX_GROUP_NEXT: &str = query!(inbox_group_unblock);
pub(crate) const INBOX_ERROR_FORGET: &str = query!(inbox_error_delete);
pub(crate) const SEEN: &str = query!(mark_processed);

/// When an item may be claimed, if not at once: the time that is stored.
pub(crate) fn due_us(item: &NewItem, now: i64) -> Option<i64> {
    let due = match item.due? {
        Due::After(delay) => now.saturating_add(as_us(delay)),
        Due::At(time) => time.as_microsecond(),
    };
    (due > now).then_some(due)
}

/// Stores items in the caller's transaction.
pub(crate) fn push_in(db: &Connection, ask: &InboxPush, now: i64) -> Result<Vec<PushedItem>> {
    if ask.items.is_empty() {
        return Ok(Vec::new());
    }
    let queue: i64 = one(db, INBOX_QUEUE_MAKE, [&ask.queue])?;
    ask.items
        .iter()
        .map(|item| push_one(db, queue, item, now))
        .collect()
}

fn push_one(db: &Connection, queue: i64, item: &NewItem, now: i64) -> Result<PushedItem> {
    let id: i64 = one(db, INBOX_SERIAL, [1])?;
    if let Some(key) = &item.key {
        let holder: i64 = one(db, INBOX_KEY, (queue, key, id))?;
        if holder != id {
            return Ok(PushedItem {
                id: ItemId(holder),
                duplicate: true,
            });
        }
    }
    let due = due_us(item, now);
    db.prepare_cached(INBOX_PUSH)
        .and_then(|mut push| push::insert(&mut push, (id, queue), item, due, now))
        .map_err(classify)?;
    if let Some(due) = due {
        exec(db, INBOX_TX_DUE, (queue, due))?;
    }
    exec(db, INBOX_QUEUE_COUNT, (queue, 1, 0, 0, 0))?;
    Ok(PushedItem {
        id: ItemId(id),
        duplicate: false,
    })
}

/// Ends items in the caller's transaction.
pub(crate) fn complete_in(db: &Connection, claims: &[ClaimId], now: i64) -> Result<Settled> {
    let mut settled = Settled::default();
    for claim in claims {
        if complete_one(db, claim, now)? {
            settled.done += 1;
        } else {
            settled.stale.push(*claim);
        }
    }
    Ok(settled)
}

/// The columns that query `inbox_complete_in` returns: queue, claim, key, group, errors.
type Taken = (i64, i64, Option<String>, Option<String>, i64);

/// False if the claim is stale.
fn complete_one(db: &Connection, claim: &ClaimId, now: i64) -> Result<bool> {
    let id = claim.item.0;
    let taken: Option<Taken> = db
        .prepare_cached(INBOX_TX_TAKE)
        .and_then(|mut take| {
            take.query_row((id, claim.token.as_bytes()), |row| row.try_into())
                .optional()
        })
        .map_err(classify)?;
    let Some((queue, held_by, key, group, errors)) = taken else {
        return Ok(false);
    };
    let worker: String = one(db, INBOX_CLAIM_RELEASE, (held_by, 1))?;
    exec(db, INBOX_DONE, (queue, id, now, worker, key))?;
    exec(db, INBOX_QUEUE_COUNT, (queue, 0, -1, 0, 1))?;
    if let Some(group) = group {
        exec(db, INBOX_GROUP_NEXT, (queue, group))?;
    }
    if errors > 0 {
        exec(db, INBOX_ERROR_FORGET, (id, errors))?;
    }
    Ok(true)
}
