//! Claims items, and takes over those of crashed workers.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Params, Row};
use uuid::Uuid;

use super::super::classify;
use super::super::rows::{counter, many, one, prepare};
use super::held::{self, AttemptEnd};
use super::tally::Tally;
use super::{count, ids, settings};
use crate::clock::{as_us, between_us, from_us};
use crate::error::Result;
use crate::store::*;

/// Maximum number of items of expired claims that one claim takes over; the next claim continues.
const TAKEN_OVER: usize = 10_000;
/// Maximum number of expired claims that one claim takes over.
const CLAIMS_TAKEN_OVER: u32 = 1_000;

/// One claim and its items.
#[derive(Debug, Clone)]
pub(crate) struct ClaimRow {
    pub id: i64,
    pub queue: i64,
    pub worker: String,
    pub until: i64,
    pub items: String,
}

impl ClaimRow {
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(ClaimRow {
            id: row.get(0)?,
            queue: row.get(1)?,
            worker: row.get(2)?,
            until: row.get(4)?,
            items: row.get(5)?,
        })
    }
}

pub(crate) fn find(db: &Connection, token: Uuid) -> Result<Option<ClaimRow>> {
    db.prepare_cached(query!(inbox_claim_find))
        .and_then(|mut find| {
            find.query_row([token.as_bytes()], ClaimRow::from_row)
                .optional()
        })
        .map_err(classify)
}

/// Returns the result without a write, if no item can be claimed or the claim is a repetition.
pub(crate) fn look(
    db: &Connection,
    ask: &InboxClaim,
    order: Order,
    now: i64,
) -> Result<Option<Vec<ClaimedItem>>> {
    if let Some(claim) = find(db, ask.request)? {
        return again(db, &claim, ask.request).map(Some);
    }
    let Some(queue) = settings::find(db, &ask.queue)? else {
        return Ok(Some(Vec::new()));
    };
    let any = match order {
        Order::ByKey => query!(inbox_claim_any),
        Order::AsEmitted => query!(outbox_claim_any),
    };
    if ask.limit > 0 && one(db, any, (queue.id, now))? {
        let may_begin = queue.admitted(db, ask.limit, now)? > 0;
        // An expired claim may be in the way.
        if may_begin || one(db, query!(inbox_claim_any_expired), (queue.id, now))? {
            return Ok(None);
        }
    }
    Ok(Some(Vec::new()))
}

/// Claims in this order. The payloads have at most `max_bytes` together, unless a single one is larger.
pub(crate) fn claim(
    db: &Connection,
    ask: &InboxClaim,
    (order, max_bytes): (Order, usize),
    now: i64,
) -> Result<Vec<ClaimedItem>> {
    if let Some(claim) = find(db, ask.request)? {
        return again(db, &claim, ask.request);
    }
    let Some(queue) = settings::find(db, &ask.queue)? else {
        return Ok(Vec::new());
    };
    if ask.limit == 0 {
        return Ok(Vec::new());
    }
    take_over(db, queue.id, now)?;
    if queue.settings.is_none() {
        return take(db, queue.id, ask, (order, max_bytes), now);
    }
    // What was taken over has left its place to others.
    let Some(queue) = settings::find(db, &ask.queue)? else {
        return Ok(Vec::new());
    };
    let limit = queue.admitted(db, ask.limit, now)?;
    if limit == 0 {
        return Ok(Vec::new());
    }
    let ask = InboxClaim {
        limit,
        ..ask.clone()
    };
    let items = take(db, queue.id, &ask, (order, max_bytes), now)?;
    queue.began(db, items.len(), now)?;
    Ok(items)
}

/// Returns how long until an item may become claimable without a push.
pub(crate) fn next_due(db: &Connection, queue: &str, now: i64) -> Result<Option<Duration>> {
    let Some(queue) = settings::find(db, queue)? else {
        return Ok(None);
    };
    let next: Option<i64> = one(db, query!(inbox_next_due), (queue.id, now))?;
    match next {
        Some(next) => queue.delay(db, between_us(now, next), now),
        None => Ok(None),
    }
}

/// Returns the items that a repeated claim still holds.
fn again(db: &Connection, claim: &ClaimRow, token: Uuid) -> Result<Vec<ClaimedItem>> {
    let mut held = db
        .prepare_cached(query!(inbox_claim_held))
        .map_err(classify)?;
    let mut items = Vec::new();
    for id in ids::decode_ids(&claim.items)? {
        let item = held.query_row((id, claim.id), |row| claimed(row, token, claim.until));
        items.extend(item.optional().map_err(classify)?);
    }
    Ok(items)
}

fn claimed(row: &Row<'_>, token: Uuid, until: i64) -> rusqlite::Result<ClaimedItem> {
    let id = ItemId(row.get(0)?);
    Ok(ClaimedItem {
        id,
        claim: ClaimId { item: id, token },
        attempt: counter(row, 1)?.saturating_add(1),
        max_attempts: counter(row, 2)?,
        payload: row.get::<_, String>(3)?.into(),
        key: row.get(4)?,
        group: row.get(5)?,
        priority: row.get(6)?,
        pushed_at: from_us(row.get(7)?),
        expires_at: from_us(until),
        abandoned: counter(row, 9)?,
    })
}

/// Claims the first items.
fn take(
    db: &Connection,
    queue: i64,
    ask: &InboxClaim,
    (order, max_bytes): (Order, usize),
    now: i64,
) -> Result<Vec<ClaimedItem>> {
    let mut room = Room::new(max_bytes);
    let until = now.saturating_add(as_us(ask.lease));
    let mut tally = Tally::default();
    let pick = |row: &Row<'_>| {
        tally.stops_waiting(queue, row.get(8)?);
        claimed(row, ask.request, until)
    };
    let items = match order {
        Order::ByKey => in_line(db, (queue, ask.limit), &mut room, now, pick)?,
        Order::AsEmitted => room.fill(
            db,
            query!(outbox_claim_in_order),
            (queue, now, ask.limit),
            pick,
        )?,
    };
    if !items.is_empty() {
        hold(db, queue, ask, &items, (now, until))?;
        tally.of(queue).held += count(items.len());
        tally.write(db)?;
    }
    Ok(items)
}

/// Selects the first items: by priority, and then those whose due time has come before those without one.
fn in_line(
    db: &Connection,
    (queue, limit): (i64, u32),
    room: &mut Room,
    now: i64,
    mut pick: impl FnMut(&Row<'_>) -> rusqlite::Result<ClaimedItem>,
) -> Result<Vec<ClaimedItem>> {
    let limit = i64::from(limit);
    let mut items = Vec::new();
    for priority in 0..PRIORITIES {
        let timed = (queue, now, priority, limit - count(items.len()));
        items.extend(room.fill(db, query!(inbox_claim_timed), timed, &mut pick)?);
        let ready = (queue, priority, limit - count(items.len()));
        items.extend(room.fill(db, query!(inbox_claim_ready), ready, &mut pick)?);
        if count(items.len()) == limit || room.is_full {
            break;
        }
    }
    Ok(items)
}

/// Number of bytes that a claim has left.
struct Room {
    bytes: usize,
    is_empty: bool,
    /// Whether an item did not fit: later items must not be claimed before it.
    is_full: bool,
}

impl Room {
    fn new(bytes: usize) -> Self {
        Room {
            bytes,
            is_empty: true,
            is_full: false,
        }
    }

    /// Returns whether an item fits. The first one always does.
    fn takes(&mut self, bytes: usize) -> bool {
        self.is_full |= bytes > self.bytes && !self.is_empty;
        if !self.is_full {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.is_empty = false;
        }
        !self.is_full
    }

    /// Returns the rows of a statement until one does not fit. The fourth column is the payload.
    fn fill(
        &mut self,
        db: &Connection,
        sql: &str,
        params: impl Params,
        mut pick: impl FnMut(&Row<'_>) -> rusqlite::Result<ClaimedItem>,
    ) -> Result<Vec<ClaimedItem>> {
        let mut items = Vec::new();
        if self.is_full {
            return Ok(items);
        }
        let fill = || -> rusqlite::Result<()> {
            let mut statement = prepare(db, sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                if !self.takes(row.get_ref(3)?.as_bytes()?.len()) {
                    break;
                }
                items.push(pick(row)?);
            }
            Ok(())
        };
        fill().map_err(classify)?;
        Ok(items)
    }
}

/// Stores the items in a new claim.
fn hold(
    db: &Connection,
    queue: i64,
    ask: &InboxClaim,
    items: &[ClaimedItem],
    (now, until): (i64, i64),
) -> Result<()> {
    let list: Vec<i64> = items.iter().map(|item| item.claim.item.0).collect();
    let claim: i64 = one(
        db,
        query!(inbox_claim_insert),
        (
            ask.request.as_bytes(),
            queue,
            &ask.worker,
            now,
            until,
            count(items.len()),
            ids::encode(list.iter().map(|id| (false, *id))),
        ),
    )?;
    let mut take = prepare(db, query!(inbox_claim_take)).map_err(classify)?;
    for (first, last) in ids::runs(&list) {
        take.execute((first, last, claim)).map_err(classify)?;
    }
    Ok(())
}

/// Ends the attempts of workers that have not extended their claims in time.
fn take_over(db: &Connection, queue: i64, now: i64) -> Result<()> {
    let expired = many(
        db,
        query!(inbox_claim_expired),
        (queue, now, CLAIMS_TAKEN_OVER),
        ClaimRow::from_row,
    )?;
    let mut tally = Tally::default();
    let mut taken = 0;
    for claim in expired {
        for held in held::of_claim(db, &claim)? {
            held.end(db, &mut tally, AttemptEnd::Abandoned, now)?;
            taken += 1;
        }
        if taken >= TAKEN_OVER {
            break;
        }
    }
    tally.write(db)
}
