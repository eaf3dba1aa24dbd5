//! Push and complete in the caller's own transaction: plain statements, an item at a time, that any driver
//! can run. `push_in` and `complete_in` run them with rusqlite; whoever has another driver runs the same
//! ones in the same order. The first of each is a write, so that a transaction that has only just begun
//! becomes the writer at once, and waits for its turn instead of failing later.

use rusqlite::{Connection, OptionalExtension};

use super::super::classify;
use super::super::rows::{exec, one};
use super::push;
use crate::clock::as_us;
use crate::error::Result;
use crate::store::*;

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../sql/", $file, ".sql"));)*
    };
}

statements! {
    INBOX_QUEUE_MAKE = "inbox_queue_make";
    INBOX_SERIAL = "inbox_serial";
    INBOX_KEY = "inbox_key";
    INBOX_PUSH = "inbox_push";
    INBOX_TX_DUE = "inbox_tx_due";
    INBOX_QUEUE_COUNT = "inbox_queue_count";
    INBOX_TX_TAKE = "inbox_tx_take";
    INBOX_CLAIM_RELEASE = "inbox_claim_release";
    INBOX_DONE = "inbox_done";
    INBOX_GROUP_NEXT = "inbox_group_next";
    INBOX_ERROR_FORGET = "inbox_error_forget";
    SEEN = "seen";
}

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

/// What `inbox_tx_take.sql` answers: queue, claim, key, group, errors.
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
