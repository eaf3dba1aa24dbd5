//! The original processing: read pending notes, process them, mark them as processed. Several processes that do so at once
//! read the same notes.

use anyhow::Result;
use sqlx::PgPool;

use crate::note::{self, Note};
use crate::service::Services;
use crate::{Batch, Outcome};

/// Processes notes without any lock.
#[derive(Debug, Clone)]
pub struct UnprotectedService {
    db: PgPool,
    services: Services,
}

impl UnprotectedService {
    /// Creates the service on the application's original table.
    pub fn new(db: PgPool, who: &str) -> Self {
        let services = Services::new(db.clone(), who);
        UnprotectedService { db, services }
    }

    /// Processes one note.
    ///
    /// # Errors
    /// Returns an error if there is no such note or the database is unavailable.
    pub async fn process_note(&self, id: &str) -> Result<Outcome> {
        self.process(&Note::read(&self.db, id).await?).await
    }

    /// Processes pending notes, of one user or of all.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn process_batch(&self, user: Option<&str>, limit: u32) -> Result<Batch> {
        let mut notes = Vec::new();
        for note in Note::read_pending(&self.db, user, limit).await? {
            let outcome = self.process(&note).await?;
            notes.push((note.id, outcome));
        }
        Ok(Batch { cleaned: 0, notes })
    }

    async fn process(&self, note: &Note) -> Result<Outcome> {
        let error = match note::process(&self.db, &self.services, note, None).await {
            Ok(_) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        // A lost update is possible: other processes may have incremented the counter since it was read.
        sqlx::query(
            "update notes
             set processing_attempts = $2,
                 error_message       = $3,
                 processed_at        = case when $3 is null then clock_timestamp() end
             where id = $1::uuid",
        )
        .bind(&note.id)
        .bind(note.attempts + 1)
        .bind(&error)
        .execute(&self.db)
        .await?;
        Ok(error.map_or(Outcome::Processed, Outcome::Failed))
    }
}
