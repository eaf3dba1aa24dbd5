//! Notices what other processes commit, for as long as anybody waits: `pragma data_version` changes
//! with every commit of another connection, and asking for it is one look at shared memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::open::Location;
use crate::error::Result;
use crate::wake::Wakers;

/// How long until the next look, in milliseconds; jittered, so that many processes do not look at once.
const LOOK_MS: std::ops::Range<u64> = 3..13;
/// How long to wait before a database that cannot be looked at is opened again.
const REOPEN: Duration = Duration::from_millis(500);

pub(super) async fn run(file: PathBuf, wakers: Arc<Wakers>, stop: CancellationToken) {
    let place = Location::File(file);
    let mut db = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wakers.needed() => {}
        }
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = look(&place, &mut db, &wakers) => ended,
        };
        wakers.set_live(false);
        if let Err(error) = ended {
            tracing::debug!(%error, "not watching the database; waiters look for themselves");
            db = None;
            tokio::time::sleep(REOPEN).await;
        }
    }
}

/// Looks until nobody waits any more.
async fn look(place: &Location, db: &mut Option<Connection>, wakers: &Wakers) -> Result<()> {
    if db.is_none() {
        let place = place.clone();
        *db = Some(super::blocking(move || place.connect()).await?);
    }
    let mut seen = None;
    while wakers.any() {
        let now = db.as_ref().map(version).transpose()?;
        if now != seen {
            wakers.set_live(true);
            wakers.wake_all();
            seen = now;
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(LOOK_MS))).await;
    }
    Ok(())
}

fn version(db: &Connection) -> Result<i64> {
    db.prepare_cached("pragma data_version")
        .and_then(|mut ask| ask.query_row([], |row| row.get(0)))
        .map_err(super::classify)
}
