//! The processing service with locks: whoever locks a note processes it, and nobody else does.

use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::PgPool;
use turno::adopt::{Acquire, Adopted, Release, Reset, Stats};
use turno::{Token, Turno};

use crate::note::{self, Note, Saved};
use crate::service::Services;
use crate::{Batch, Outcome};

/// How long a note may be in processing before somebody else takes it over, unless said otherwise.
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
    /// On the adopted table `notes`; `db` is the application's own way to the same database.
    pub fn new(turno: &Turno, db: PgPool, who: &str) -> Self {
        ProcessingService {
            notes: turno.adopted("notes"),
            services: Services::new(db.clone(), who),
            db,
            timeout: LOCK_TIMEOUT,
        }
    }

    /// Another timeout than [`LOCK_TIMEOUT`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Processes one note of a user: the button.
    ///
    /// # Errors
    /// If the user has no such note, or the database does not answer.
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

    /// Processes notes that are free, of one user or all. All are locked at once and done one after the other, so the
    /// timeout has to be enough for the whole batch.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn process_batch(&self, user: Option<&str>, limit: u32) -> Result<Batch> {
        let cleaned = self.cleanup_abandoned().await?;
        let mut notes = Vec::new();
        for row in self.notes.next(user, limit, self.timeout).await? {
            let outcome = self.process_with_lock(&row.id, row.token).await?;
            notes.push((row.id, outcome));
        }
        Ok(Batch { cleaned, notes })
    }

    /// The lock is released whatever happens; if this process dies, the timeout does it.
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
        // Read under the lock: what an earlier attempt has paid for is there.
        let note = Note::read(&self.db, id).await?;
        note::process(&self.db, &self.services, &note, Some(token)).await
    }

    /// Marks what was locked for longer than the timeout as failed. Answers how many. Only statistics need this: such notes
    /// are taken over in any case.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn cleanup_abandoned(&self) -> Result<u64> {
        Ok(self.notes.cleanup(self.timeout).await?)
    }

    /// How many notes are in which state, of one user or all, after a cleanup.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn get_processing_stats(&self, user: Option<&str>) -> Result<Stats> {
        self.cleanup_abandoned().await?;
        Ok(self.notes.stats(user).await?)
    }

    /// Makes notes pending again: those that are stuck, or all that are not processed. Answers how many.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn reset_stuck_processing(&self, which: Reset) -> Result<u64> {
        Ok(self.notes.reset_stuck(which).await?)
    }
}
