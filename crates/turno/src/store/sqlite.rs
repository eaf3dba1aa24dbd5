//! SQLite: the embedded store, for many processes on one machine.
//!
//! Each process has one writer thread, which commits concurrent changes with one sync (`writer.rs`). The lock of the file makes
//! the processes write one after the other. The rules are in `sqlite/queries/*.sql` and `sqlite/lock.rs`, and run inside that
//! write transaction.

#[macro_use]
pub(crate) mod queries;

mod access;
mod adopt;
pub(crate) mod caller;
mod diagnose;
mod error;
mod history;
pub(crate) mod inbox;
mod lock;
mod migrate;
pub(crate) mod once;
mod open;
pub(crate) mod outbox;
mod rows;
#[cfg(test)]
mod rule_tests;
mod schedule;
mod share;
mod sweep;
mod watch;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::error::classify;
pub use self::migrate::script;
use self::open::Location;
use self::writer::{Writer, snapshot};
use super::*;
use crate::clock;
use crate::settings::Settings;

pub(crate) const LOCK_GUARD: &str = query!(lock_guard);

/// An SQLite database.
pub struct SqliteStore {
    location: Location,
    writer: Writer,
    /// Maximum size of the payloads of one claim, in bytes.
    max_claim_bytes: usize,
    /// Idle connections for reads; none for a database in memory, which has one connection.
    readers: Arc<Mutex<Vec<Connection>>>,
    wakers: Arc<Wakers>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens a file, which is created if it does not exist, or `:memory:`. Concurrent changes share a commit.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or is not an SQLite database.
    pub async fn open(path: &str) -> Result<Self> {
        SqliteStore::open_with(path, &Settings::default()).await
    }

    /// Returns whether a file has a store. Does not create the file.
    ///
    /// # Errors
    /// Returns an error if `path` does not name a file.
    pub fn exists(path: &str) -> Result<bool> {
        Ok(Location::parse(path)?.exists())
    }

    /// Returns the error for a file without a store, if none may be created; `None` if there is one.
    ///
    /// # Errors
    /// Returns an error if `path` does not name a file.
    pub fn missing(path: &str) -> Result<Option<Error>> {
        if SqliteStore::exists(path)? {
            return Ok(None);
        }
        Ok(Some(Error::schema(format!(
            "there is no store in {path}: name another one, or run `turno migrate`"
        ))))
    }

    /// Opens a file or `:memory:` with these settings.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or is not an SQLite database.
    pub async fn open_with(path: &str, settings: &Settings) -> Result<Self> {
        let location = Location::parse(path)?;
        let connection = {
            let location = location.clone();
            blocking(move || location.connect()).await?
        };
        let store = SqliteStore {
            writer: Writer::spawn(connection, settings.batching)?,
            max_claim_bytes: settings.max_claim_bytes,
            location,
            readers: Arc::default(),
            wakers: Arc::new(Wakers::default()),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        if let Location::File(file) = &store.location {
            store.tasks.spawn(watch::run(
                file.clone(),
                store.wakers.clone(),
                store.stop.clone(),
            ));
        } else {
            // Only this process uses the database, so all its changes wake waiters.
            store.wakers.set_live(true);
        }
        Ok(store)
    }

    /// Returns the database's file; `None` if it is in memory.
    pub fn file(&self) -> Option<&PathBuf> {
        match &self.location {
            Location::File(file) => Some(file),
            Location::Memory => None,
        }
    }

    /// Reads one state, concurrently with the writer.
    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if matches!(self.location, Location::Memory) {
            return self.writer.write(read).await;
        }
        let (location, readers) = (self.location.clone(), self.readers.clone());
        blocking(move || {
            let idle = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match idle {
                Some(connection) => connection,
                None => location.connect()?,
            };
            let answer = snapshot(&connection, || read(&connection));
            readers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
            answer
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            Err(Error::caused(
                Kind::Broken,
                "a thread of the store has failed",
                error,
            ))
        })
}

#[async_trait]
impl Store for SqliteStore {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    async fn migrate(&self) -> Result<Migrated> {
        // With an up-to-date schema, a start does not wait for the writer.
        self.writer
            .look_then_write(migrate::done, migrate::migrate)
            .await
    }

    async fn schema_version(&self) -> Result<Option<u32>> {
        self.read(migrate::version).await
    }

    async fn schema(&self) -> Result<Option<Schema>> {
        self.read(migrate::schema).await
    }

    async fn check_writable(&self) -> Result<()> {
        self.read(|db| match db.is_readonly(rusqlite::MAIN_DB) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Error::new(
                Kind::Refused,
                "the database file is read-only: give this user the right to write it and its folder",
            )),
            Err(error) => Err(classify(error)),
        })
        .await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let location = self.location.clone();
        self.read(move |db| diagnose::diagnose(db, &location)).await
    }

    async fn lock_acquire(&self, ask: &LockAcquire) -> Result<LockOutcome> {
        let in_place = |db: &Connection| lock::acquire(db, ask, clock::now_us());
        if let Some(outcome) = self.writer.in_place(in_place).await {
            return outcome;
        }
        let (look, ask) = (ask.clone(), ask.clone());
        self.writer
            .look_then_write(
                move |db| Ok(lock::lose(db, &look, clock::now_us())?.map(LockOutcome::Busy)),
                move |db| lock::acquire(db, &ask, clock::now_us()),
            )
            .await
    }

    async fn lock_acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome> {
        let (look, ask) = (ask.clone(), ask.clone());
        self.writer
            .look_then_write(
                move |db| {
                    for one in lock::each(&look) {
                        if let Some(busy) = lock::lose(db, &one, clock::now_us())? {
                            return Ok(Some(LockAllOutcome::Busy(busy)));
                        }
                    }
                    Ok(None)
                },
                move |db| lock::acquire_all(db, &ask, clock::now_us()),
            )
            .await
    }

    async fn lock_renew(&self, ask: &LockRenew) -> Result<RenewOutcome> {
        let in_place = |db: &Connection| lock::renew(db, ask, clock::now_us());
        if let Some(outcome) = self.writer.in_place(in_place).await {
            return outcome;
        }
        let ask = ask.clone();
        self.writer
            .write(move |db| lock::renew(db, &ask, clock::now_us()))
            .await
    }

    async fn lock_release(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        let in_place = |db: &Connection| lock::release(db, ask, clock::now_us());
        if let Some(outcome) = self.writer.in_place(in_place).await {
            return outcome;
        }
        let ask = ask.clone();
        self.writer
            .write(move |db| lock::release(db, &ask, clock::now_us()))
            .await
    }

    async fn lock_break(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        let ask = ask.clone();
        self.writer
            .write(move |db| lock::break_open(db, &ask, clock::now_us()))
            .await
    }

    async fn lock_wait(&self, ask: &LockWait) -> Result<WaitOutcome> {
        let ask = ask.clone();
        self.writer
            .write(move |db| lock::wait(db, &ask, clock::now_us()))
            .await
    }

    async fn lock_leave(&self, ask: &LockLeave) -> Result<()> {
        let ask = ask.clone();
        self.writer.write(move |db| lock::leave(db, &ask)).await
    }

    async fn lock_status(&self, resource: &str) -> Result<LockStatus> {
        let resource = resource.to_owned();
        self.read(move |db| lock::status(db, &resource, clock::now_us()))
            .await
    }

    async fn lock_list(&self, ask: &LockList) -> Result<Vec<LockHolder>> {
        let ask = ask.clone();
        self.read(move |db| lock::list(db, &ask, clock::now_us()))
            .await
    }

    async fn history(&self, ask: &History) -> Result<Vec<HistoryEntry>> {
        let ask = ask.clone();
        self.read(move |db| history::history(db, &ask)).await
    }

    async fn sweep(&self, ask: &Sweep) -> Result<Swept> {
        let ask = ask.clone();
        self.writer
            .write(move |db| sweep::sweep(db, &ask, clock::now_us()))
            .await
    }

    fn wakers(&self) -> &Arc<Wakers> {
        &self.wakers
    }

    async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.writer.close().await;
        self.readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
