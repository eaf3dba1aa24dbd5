//! Lists of items, page by page.

use rusqlite::{Connection, OptionalExtension, Row};

use super::super::classify;
use super::super::rows::{counter, many};
use super::claim::ClaimRow;
use super::{find_queue, held, line};
use crate::clock::from_us;
use crate::error::Result;
use crate::store::*;

pub(crate) fn list(db: &Connection, ask: &InboxList, now: i64) -> Result<Vec<ItemView>> {
    let Some(queue) = find_queue(db, &ask.queue)? else {
        return Ok(Vec::new());
    };
    if ask.state == ItemState::Completed {
        return completed(db, queue, ask);
    }
    let page = Page {
        db,
        queue,
        after: ask.after.map_or(i64::MIN, |id| id.0),
        limit: ask.limit,
        now,
    };
    let mut ids = match ask.state {
        ItemState::Pending => page.pending()?,
        ItemState::Scheduled => page.timed(now.saturating_add(1), i64::MAX)?,
        ItemState::Processing => page.held(|claim| claim.until > now)?,
        ItemState::Failed => page.failed()?,
        ItemState::Completed => Vec::new(),
    };
    ids.sort_unstable();
    ids.truncate(usize::try_from(ask.limit).unwrap_or(usize::MAX));
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        items.extend(view(db, id, ask.state)?);
    }
    Ok(items)
}

/// Begin and length of a page. Each method returns the ids of one state that may be on it.
struct Page<'a> {
    db: &'a Connection,
    queue: i64,
    after: i64,
    limit: u32,
    now: i64,
}

impl Page<'_> {
    fn pending(&self) -> Result<Vec<i64>> {
        let mut ids = self.timed(i64::MIN, self.now)?;
        for line in [line::READY, line::BEHIND] {
            for priority in 0..PRIORITIES {
                let ready = (self.queue, line, priority, self.after, self.limit);
                ids.extend(self.ids(query!(inbox_list_ready), ready)?);
            }
        }
        ids.extend(self.held(|claim| claim.until <= self.now)?);
        Ok(ids)
    }

    fn timed(&self, from: i64, to: i64) -> Result<Vec<i64>> {
        let timed = (self.queue, from, to, self.after, self.limit);
        self.ids(query!(inbox_list_timed), timed)
    }

    fn failed(&self) -> Result<Vec<i64>> {
        let failed = (self.queue, self.after, self.limit);
        self.ids(query!(inbox_list_failed), failed)
    }

    fn held(&self, wanted: impl Fn(&ClaimRow) -> bool) -> Result<Vec<i64>> {
        let live = query!(inbox_claim_live);
        let claims = many(self.db, live, (self.queue, i64::MAX), ClaimRow::from_row)?;
        let mut ids = Vec::new();
        for claim in claims.iter().filter(|claim| wanted(claim)) {
            let held = held::of_claim(self.db, claim)?;
            ids.extend(
                held.iter()
                    .map(held::Held::id)
                    .filter(|id| *id > self.after),
            );
        }
        Ok(ids)
    }

    fn ids(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<i64>> {
        many(self.db, sql, params, |row| row.get(0))
    }
}

fn completed(db: &Connection, queue: i64, ask: &InboxList) -> Result<Vec<ItemView>> {
    let before = ask.after.map_or(i64::MAX, |id| id.0);
    let done = query!(inbox_list_done);
    let records = many(db, done, (queue, before, ask.limit), |row| {
        let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
        let item = ItemView {
            id: ItemId(last),
            state: ItemState::Completed,
            payload: None,
            key: None,
            group: None,
            priority: None,
            attempts: 0,
            abandoned: 0,
            worker: row.get(3)?,
            pushed_at: None,
            at: Some(from_us(row.get(2)?)),
            errors: Vec::new(),
        };
        Ok((first..=last.min(before - 1), item))
    })?;
    let items = records.into_iter().flat_map(|(ids, item)| {
        ids.rev().map(move |id| ItemView {
            id: ItemId(id),
            ..item.clone()
        })
    });
    Ok(items
        .take(usize::try_from(ask.limit).unwrap_or(usize::MAX))
        .collect())
}

pub(crate) fn view(db: &Connection, id: i64, state: ItemState) -> Result<Option<ItemView>> {
    let item = db
        .prepare_cached(query!(inbox_item_find))
        .and_then(|mut view| {
            view.query_row([id], |row| view_row(row, id, state))
                .optional()
        })
        .map_err(classify)?;
    let Some((errors, mut item)) = item else {
        return Ok(None);
    };
    if errors > 0 {
        item.errors = many(db, query!(inbox_error_list), [id], error_row)?;
    }
    Ok(Some(item))
}

/// Returns the number of errors of an item, and the item without them.
fn view_row(row: &Row<'_>, id: i64, state: ItemState) -> rusqlite::Result<(u32, ItemView)> {
    let pushed_at: i64 = row.get(7)?;
    let due: Option<i64> = row.get(8)?;
    let claimed_at: Option<i64> = row.get(10)?;
    let until: Option<i64> = row.get(11)?;
    let at = match state {
        ItemState::Processing => claimed_at,
        // An item whose claim has expired is pending since then.
        ItemState::Pending => until.or(due),
        _ => due,
    };
    let view = ItemView {
        id: ItemId(id),
        state,
        payload: row.get::<_, Option<String>>(0)?.map(Into::into),
        key: row.get(1)?,
        group: row.get(2)?,
        priority: row.get(3)?,
        attempts: counter(row, 4)?,
        abandoned: counter(row, 5)?,
        worker: row.get(9)?,
        pushed_at: Some(from_us(pushed_at)),
        at: Some(from_us(at.unwrap_or(pushed_at))),
        errors: Vec::new(),
    };
    Ok((row.get(6)?, view))
}

fn error_row(row: &Row<'_>) -> rusqlite::Result<AttemptError> {
    Ok(AttemptError {
        attempt: row.get(0)?,
        at: from_us(row.get(1)?),
        kind: row.get(2)?,
        error: row.get(3)?,
        worker: row.get(4)?,
    })
}
