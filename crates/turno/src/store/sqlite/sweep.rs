//! The sweep. It deletes rows that no rule needs any more.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::rows::{Held, exec, lock_rows};
use super::{inbox, lock, once, rows};
use crate::clock::as_us;
use crate::error::Result;
use crate::store::{HistoryEvent, Sweep, Swept};

/// How long a repeated request gets the result of the first one.
const REQUESTS_KEPT: Duration = Duration::from_secs(10 * 60);

pub(super) fn sweep(db: &Connection, ask: &Sweep, now: i64) -> Result<Swept> {
    let batch = ask.batch;
    let expired: Vec<Held> = lock_rows(
        db,
        query!(sweep_expired),
        named_params! {":now": now, ":batch": batch},
    )?;
    let mut closed = 0;
    for held in &expired {
        closed += lock::close(db, held, rows::Ending::of(HistoryEvent::Expired), now)?;
        exec(
            db,
            query!(lock_free),
            named_params! {":resource": held.resource, ":min_until": held.min_until},
        )?;
    }
    let purge =
        named_params! {":before": now - as_us(ask.purge_after), ":now": now, ":batch": batch};
    exec(db, query!(sweep_floor), purge)?;
    let purged = exec(db, query!(sweep_purge), purge)?;
    let waiters = exec(db, query!(sweep_waiters), named_params! {":now": now})?;
    let old = named_params! {":before": now - as_us(ask.keep_history), ":batch": batch};
    let history =
        exec(db, query!(sweep_history), old)? + exec(db, query!(sweep_operator_actions), old)?;
    exec(
        db,
        query!(sweep_record),
        (now, format!("process {}", std::process::id())),
    )?;
    Ok(Swept {
        expired: closed,
        purged,
        waiters,
        history,
        completed: inbox_records(db, ask, now)?,
        archived: exec(
            db,
            query!(sweep_outbox_archive),
            (now.saturating_sub(as_us(ask.keep_archive)), batch),
        )?,
        seen: exec(
            db,
            query!(sweep_processed),
            (now.saturating_sub(as_us(ask.keep_seen)), batch),
        )?,
        once: once::sweep(db, batch, now)?,
        failed: match ask.keep_failed {
            Some(keep) => inbox::sweep_failed(db, now.saturating_sub(as_us(keep)), batch, now)?,
            None => 0,
        },
    })
}

/// Deletes old rows of the inbox: completions with their keys, keys of discarded items, results of requests, empty claims.
fn inbox_records(db: &Connection, ask: &Sweep, now: i64) -> Result<u64> {
    let done = (now.saturating_sub(as_us(ask.keep_completed)), ask.batch);
    exec(db, query!(sweep_inbox_key), done)?;
    let completed = exec(db, query!(sweep_inbox_done), done)?;
    let asked = (now - as_us(REQUESTS_KEPT), ask.batch);
    let requests = exec(db, query!(sweep_inbox_request), asked)?;
    let claims = exec(db, query!(sweep_inbox_claim), asked)?;
    exec(db, query!(sweep_outbox_discarded_key), done)?;
    let discarded = exec(db, query!(sweep_outbox_discarded), done)?;
    let keys = exec(db, query!(sweep_inbox_key_done), done)?;
    Ok(completed + requests + claims + discarded + keys)
}
