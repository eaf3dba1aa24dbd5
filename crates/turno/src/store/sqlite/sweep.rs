//! Tidiness, never correctness.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::rows::{Held, exec, lock_rows};
use super::{inbox, lock, once, rows};
use crate::clock::as_us;
use crate::error::Result;
use crate::store::{HistoryEvent, Sweep, Swept};

/// How long a request may be asked again, to be answered as the first time.
const REQUESTS_KEPT: Duration = Duration::from_secs(10 * 60);

pub(super) fn sweep(db: &Connection, ask: &Sweep, now: i64) -> Result<Swept> {
    let batch = ask.batch;
    let expired: Vec<Held> = lock_rows(
        db,
        include_str!("sql/sweep_expired.sql"),
        named_params! {":now": now, ":batch": batch},
    )?;
    let mut closed = 0;
    for held in &expired {
        closed += lock::close(db, held, rows::Ending::of(HistoryEvent::Expired), now)?;
        exec(
            db,
            include_str!("sql/lock_free.sql"),
            named_params! {":resource": held.resource, ":min_until": held.min_until},
        )?;
    }
    let purge =
        named_params! {":before": now - as_us(ask.purge_after), ":now": now, ":batch": batch};
    exec(db, include_str!("sql/sweep_floor.sql"), purge)?;
    let purged = exec(db, include_str!("sql/sweep_purge.sql"), purge)?;
    let waiters = exec(
        db,
        include_str!("sql/sweep_waiters.sql"),
        named_params! {":now": now},
    )?;
    let old = named_params! {":before": now - as_us(ask.keep_history), ":batch": batch};
    let history = exec(db, include_str!("sql/sweep_history.sql"), old)?
        + exec(db, include_str!("sql/sweep_deeds.sql"), old)?;
    exec(
        db,
        include_str!("sql/sweep_note.sql"),
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
            include_str!("sql/sweep_outbox_archive.sql"),
            (now.saturating_sub(as_us(ask.keep_archive)), batch),
        )?,
        seen: exec(
            db,
            include_str!("sql/sweep_seen.sql"),
            (now.saturating_sub(as_us(ask.keep_seen)), batch),
        )?,
        once: once::sweep(db, batch, now)?,
        failed: match ask.keep_failed {
            Some(keep) => inbox::sweep_failed(db, now.saturating_sub(as_us(keep)), batch, now)?,
            None => 0,
        },
    })
}

/// The inbox's records of what is over: completions with their keys, keys of discarded items, answered requests, empty claims.
fn inbox_records(db: &Connection, ask: &Sweep, now: i64) -> Result<u64> {
    let done = (now.saturating_sub(as_us(ask.keep_completed)), ask.batch);
    exec(db, include_str!("sql/sweep_inbox_key.sql"), done)?;
    let completed = exec(db, include_str!("sql/sweep_inbox_done.sql"), done)?;
    let asked = (now - as_us(REQUESTS_KEPT), ask.batch);
    let requests = exec(db, include_str!("sql/sweep_inbox_request.sql"), asked)?;
    let claims = exec(db, include_str!("sql/sweep_inbox_claim.sql"), asked)?;
    exec(db, include_str!("sql/sweep_outbox_discarded_key.sql"), done)?;
    let discarded = exec(db, include_str!("sql/sweep_outbox_discarded.sql"), done)?;
    let keys = exec(db, include_str!("sql/sweep_inbox_key_done.sql"), done)?;
    Ok(completed + requests + claims + discarded + keys)
}
