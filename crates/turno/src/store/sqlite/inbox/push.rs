//! Stores items.

use rusqlite::{CachedStatement, Connection};

use super::super::classify;
use super::super::rows::one;
use super::tally::Tally;
use super::{INBOX_KEY, INBOX_PUSH, INBOX_QUEUE_MAKE, INBOX_SERIAL, count, due_us, request};
use crate::error::Result;
use crate::store::*;

pub(crate) fn push(db: &Connection, ask: &InboxPush, now: i64) -> Result<Vec<PushedItem>> {
    if let Some(pushed) = request::pushed(db, ask.request)? {
        return Ok(pushed);
    }
    let pushed = store(db, ask, now)?;
    request::remember_pushed(db, ask.request, &pushed, now)?;
    Ok(pushed)
}

pub(crate) fn store(db: &Connection, ask: &InboxPush, now: i64) -> Result<Vec<PushedItem>> {
    if ask.items.is_empty() {
        return Ok(Vec::new());
    }
    let queue: i64 = one(db, INBOX_QUEUE_MAKE, [&ask.queue])?;
    let count = count(ask.items.len());
    let last: i64 = one(db, INBOX_SERIAL, [count])?;
    let mut key = db.prepare_cached(INBOX_KEY).map_err(classify)?;
    let mut push = db.prepare_cached(INBOX_PUSH).map_err(classify)?;
    let mut tally = Tally::default();
    let pushed = (last - count + 1..)
        .zip(&ask.items)
        .map(|(id, item)| {
            let holder = take_key(&mut key, queue, id, item)?;
            let duplicate = holder != id;
            if !duplicate {
                let due = due_us(item, now);
                insert(&mut push, (id, queue), item, due, now)?;
                tally.waits(queue, due);
            }
            Ok(PushedItem {
                id: ItemId(holder),
                duplicate,
            })
        })
        .collect::<rusqlite::Result<Vec<_>>>()
        .map_err(classify)?;
    tally.write(db)?;
    Ok(pushed)
}

/// Returns the item that has the unique key: this one, unless another one has it already.
fn take_key(
    key: &mut CachedStatement<'_>,
    queue: i64,
    id: i64,
    item: &NewItem,
) -> rusqlite::Result<i64> {
    match &item.key {
        Some(name) => key.query_row((queue, name, id), |row| row.get(0)),
        None => Ok(id),
    }
}

pub(crate) fn insert(
    push: &mut CachedStatement<'_>,
    (id, queue): (i64, i64),
    item: &NewItem,
    due: Option<i64>,
    now: i64,
) -> rusqlite::Result<()> {
    push.execute((
        id,
        queue,
        item.priority,
        due,
        item.max_attempts,
        now,
        item.key.as_ref().or(item.label.as_ref()),
        &item.group,
        &item.payload,
    ))
    .map(drop)
}
