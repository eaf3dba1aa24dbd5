//! Detects the commits of other processes while there is a waiter. `pragma data_version` changes with every commit of another
//! connection, and reading it is one access to shared memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::open::Location;
use crate::error::Result;
use crate::wake::Wakers;

/// Pause between two polls, in milliseconds; jittered, so that many processes do not poll at once.
const POLL_PAUSE_MS: std::ops::Range<u64> = 3..13;
/// Pause before a database that cannot be read is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(file: PathBuf, wakers: Arc<Wakers>, stop: CancellationToken) {
    let location = Location::File(file);
    let mut db = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wakers.needed() => {}
        }
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = poll(&location, &mut db, &wakers) => ended,
        };
        wakers.set_live(false);
        if let Err(error) = ended {
            tracing::debug!(%error, "not watching the database; waiters poll");
            db = None;
            tokio::time::sleep(REOPEN_PAUSE).await;
        }
    }
}

/// Polls while there is a waiter.
async fn poll(location: &Location, db: &mut Option<Connection>, wakers: &Wakers) -> Result<()> {
    if db.is_none() {
        let location = location.clone();
        *db = Some(super::blocking(move || location.connect()).await?);
    }
    let mut seen = None;
    while wakers.any() {
        let now = db.as_ref().map(version).transpose()?;
        if now != seen {
            wakers.set_live(true);
            wakers.wake_all();
            seen = now;
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(POLL_PAUSE_MS))).await;
    }
    Ok(())
}

fn version(db: &Connection) -> Result<i64> {
    db.prepare_cached("pragma data_version")
        .and_then(|mut ask| ask.query_row([], |row| row.get(0)))
        .map_err(super::classify)
}
