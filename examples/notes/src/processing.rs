//! The processing service with locks: only the holder of a note's lock processes the note.

use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::PgPool;
use turno::adopt::{Acquire, Adopted, Release, Reset, Stats};
use turno::{Token, Turno};

use crate::note::{self, Note, Saved};
use crate::service::Services;
use crate::{Batch, Outcome};

/// Default timeout: how long a note may be in processing before another process takes it over.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Processes notes of the adopted table.
#[derive(Debug, Clone)]
pub struct ProcessingService {
    notes: Adopted,
    db: PgPool,
    services: Services,
    timeout: Duration,
}

impl ProcessingService {
    /// Creates the service on the adopted table `notes`. `db` is the application's own connection pool to the same database.
    pub fn new(turno: &Turno, db: PgPool, who: &str) -> Self {
        ProcessingService {
            notes: turno.adopted("notes"),
            services: Services::new(db.clone(), who),
            db,
            timeout: LOCK_TIMEOUT,
        }
    }

    /// Sets the timeout. Default: [`LOCK_TIMEOUT`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Processes one note of a user: the button.
    ///
    /// # Errors
    /// Returns an error if the user has no such note or the database is unavailable.
    pub async fn process_note(&self, id: &str, user: &str) -> Result<Outcome> {
        let owned: bool = sqlx::query_scalar(
            "select exists (select from notes where id = $1::uuid and user_id = $2::uuid)",
        )
        .bind(id)
        .bind(user)
        .fetch_one(&self.db)
        .await?;
        ensure!(owned, "Note not found");
        match self.notes.acquire(id, self.timeout).await? {
            Acquire::Acquired { token } => self.process_with_lock(id, token).await,
            Acquire::Busy => Ok(Outcome::Busy),
        }
    }

    /// Processes free notes, of one user or of all. All are locked at once and processed one after the other, so the timeout
    /// must be long enough for the whole batch.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn process_batch(&self, user: Option<&str>, limit: u32) -> Result<Batch> {
        let cleaned = self.cleanup_abandoned().await?;
        let mut notes = Vec::new();
        for row in self.notes.next(user, limit, self.timeout).await? {
            let outcome = self.process_with_lock(&row.id, row.token).await?;
            notes.push((row.id, outcome));
        }
        Ok(Batch { cleaned, notes })
    }

    /// Processes a locked note and always releases the lock. If this process dies, the lock ends with the timeout.
    async fn process_with_lock(&self, id: &str, token: Token) -> Result<Outcome> {
        let (release, outcome) = match self.process(id, token).await {
            Ok(Saved::Saved) => (self.notes.release(id, token).await?, Outcome::Processed),
            Ok(Saved::Stale) => return Ok(Outcome::Overtaken),
            Err(error) => {
                let error = format!("{error:#}");
                let release = self.notes.release_with_error(id, token, &error).await?;
                (release, Outcome::Failed(error))
            }
        };
        Ok(match release {
            Release::Released => outcome,
            Release::Stale => Outcome::Overtaken,
        })
    }

    async fn process(&self, id: &str, token: Token) -> Result<Saved> {
        // Read under the lock: the results that an earlier attempt has paid for are in the row.
        let note = Note::read(&self.db, id).await?;
        note::process(&self.db, &self.services, &note, Some(token)).await
    }

    /// Marks notes that were locked for longer than the timeout as failed, and returns their number. Only statistics need
    /// this: such notes are taken over in any case.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn cleanup_abandoned(&self) -> Result<u64> {
        Ok(self.notes.cleanup(self.timeout).await?)
    }

    /// Returns the number of notes per state, of one user or of all, after a cleanup.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn get_processing_stats(&self, user: Option<&str>) -> Result<Stats> {
        self.cleanup_abandoned().await?;
        Ok(self.notes.stats(user).await?)
    }

    /// Resets notes to pending, either stuck ones or all unprocessed ones, and returns their number.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn reset_stuck_processing(&self, which: Reset) -> Result<u64> {
        Ok(self.notes.reset_stuck(which).await?)
    }
}
