//! The document's `ProcessPresentationUseCase`, with one implementation per way of coordinating instances.

use anyhow::{Result, bail};
use tracing::{error, info, warn};
use turno::adopt::{Adopted, Release, TakenRow};
use turno::inbox::Job;
use uuid::Uuid;

use crate::database::{Database, Presentation};
use crate::inbox_repository::InboxRepository;
use crate::strategy::Strategy;
use crate::web_service_client::WebServiceClient;

/// Outcome of processing a presentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The web service accepted it.
    Processed,
    /// Another instance processes it.
    Skipped,
    /// The web service accepted it, and has also received it from another instance.
    ProcessedTwice,
}

/// Sends one presentation to the web service.
#[derive(Debug, Clone)]
pub struct ProcessPresentationUseCase {
    /// Way of coordinating instances.
    pub how: Strategy,
    /// Database of the presentations.
    pub database: Database,
    /// Client of the web service.
    pub web_service: WebServiceClient,
}

impl ProcessPresentationUseCase {
    /// Processes a presentation, unless another instance does. After an error it stays unprocessed, for the next run.
    ///
    /// # Errors
    /// Returns an error if the web service or the database rejects a call.
    pub async fn execute(&self, presentation_id: Uuid) -> Result<Outcome> {
        info!("Attempting to process presentation with ID: {presentation_id}");
        let outcome = match self.how {
            // Each partition belongs to one instance, so the row need not be checked.
            Strategy::PlainSelect | Strategy::HashPartition => {
                self.plain_select(presentation_id).await
            }
            Strategy::ConditionalUpdate => self.conditional_update(presentation_id).await,
            Strategy::ConditionalUpdateInTransaction => self.in_transaction(presentation_id).await,
            Strategy::SkipLocked => self.skip_locked(presentation_id).await,
            Strategy::RepeatableRead => self.repeatable_read(presentation_id).await,
            Strategy::Turno => bail!("a worker hands presentations to execute_job"),
        };
        log_outcome(presentation_id, &outcome);
        outcome
    }

    /// T1 to T5 of the problem: each instance that has selected the presentation calls the web service.
    async fn plain_select(&self, id: Uuid) -> Result<Outcome> {
        self.process(id, 1).await?;
        let mut inbox = InboxRepository::begin(&self.database).await?;
        let updated = inbox.try_mark_as_processing(id).await?;
        inbox.commit().await?;
        Ok(if updated == 0 {
            Outcome::ProcessedTwice
        } else {
            Outcome::Processed
        })
    }

    /// The mark is committed before the call, so no other instance is blocked. The mark remains if this process dies during
    /// the call.
    async fn conditional_update(&self, id: Uuid) -> Result<Outcome> {
        let mut inbox = InboxRepository::begin(&self.database).await?;
        let updated = inbox.try_mark_as_processing(id).await?;
        inbox.commit().await?;
        if updated == 0 {
            return Ok(Outcome::Skipped);
        }
        if let Err(error) = self.process(id, 1).await {
            // Revert to unprocessed state so it can be retried later.
            let mut inbox = InboxRepository::begin(&self.database).await?;
            inbox.mark_as_unprocessed(id).await?;
            inbox.commit().await?;
            return Err(error);
        }
        Ok(Outcome::Processed)
    }

    /// As in the document, with `@Transactional` around all steps.
    async fn in_transaction(&self, id: Uuid) -> Result<Outcome> {
        let mut inbox = InboxRepository::begin(&self.database).await?;
        if inbox.try_mark_as_processing(id).await? == 0 {
            inbox.rollback().await?;
            return Ok(Outcome::Skipped);
        }
        if let Err(error) = self.process(id, 1).await {
            // The document does both. One would suffice: the rollback undoes the mark and this update.
            inbox.mark_as_unprocessed(id).await?;
            inbox.rollback().await?;
            return Err(error);
        }
        inbox.commit().await?;
        Ok(Outcome::Processed)
    }

    /// Skips a locked row instead of waiting for it.
    async fn skip_locked(&self, id: Uuid) -> Result<Outcome> {
        let mut inbox = InboxRepository::begin(&self.database).await?;
        if !inbox.lock_unprocessed(id).await? {
            inbox.rollback().await?;
            return Ok(Outcome::Skipped);
        }
        if let Err(error) = self.process(id, 1).await {
            inbox.rollback().await?;
            return Err(error);
        }
        inbox.try_mark_as_processing(id).await?;
        inbox.commit().await?;
        Ok(Outcome::Processed)
    }

    /// The database rejects the second mark, but only after the second call was made.
    async fn repeatable_read(&self, id: Uuid) -> Result<Outcome> {
        let mut inbox = InboxRepository::begin_repeatable_read(&self.database).await?;
        if !inbox.is_unprocessed(id).await? {
            inbox.rollback().await?;
            return Ok(Outcome::Skipped);
        }
        if let Err(error) = self.process(id, 1).await {
            inbox.rollback().await?;
            return Err(error);
        }
        inbox.try_mark_as_processing(id).await?;
        inbox.commit().await?;
        Ok(Outcome::Processed)
    }

    /// Processes a presentation that Turno has claimed for this worker. The claim expires if the worker dies, and the next
    /// attempt is counted. No lock is held during the call. Mark and completion commit together.
    ///
    /// # Errors
    /// Returns an error if the web service or the database rejects a call, or if another worker has taken over the
    /// presentation.
    pub async fn execute_job(&self, job: Job<Presentation>) -> Result<Outcome> {
        let id = job.payload.id;
        info!("Attempting to process presentation with ID: {id}");
        let outcome = self.claimed(&job).await;
        log_outcome(id, &outcome);
        outcome
    }

    async fn claimed(&self, job: &Job<Presentation>) -> Result<Outcome> {
        let id = job.payload.id;
        let mut inbox = InboxRepository::begin(&self.database).await?;
        let is_unprocessed = inbox.is_unprocessed(id).await?;
        inbox.rollback().await?;
        if !is_unprocessed {
            // Marked by hand. An instance that does not use Turno could mark it later, during the call: see execute_row.
            return Ok(Outcome::Skipped);
        }
        self.process(id, job.attempt()).await?;
        let mut inbox = InboxRepository::begin(&self.database).await?;
        let updated = inbox.try_mark_as_processing(id).await?;
        inbox.complete(job).await?;
        inbox.commit().await?;
        Ok(if updated == 0 {
            Outcome::ProcessedTwice
        } else {
            Outcome::Processed
        })
    }

    /// Processes a row of the adopted table that Turno has locked for this instance. Beside instances with the document's
    /// statements, the database keeps those from marking the row: see `sql/mixed_fleet_postgres.sql`.
    ///
    /// # Errors
    /// Returns an error if the web service or the database rejects a call. The row is unlocked then.
    pub async fn execute_row(&self, table: &Adopted, row: &TakenRow) -> Result<Outcome> {
        let id = row.id.parse()?;
        info!("Attempting to process presentation with ID: {id}");
        let outcome = self.locked(table, row, id).await;
        log_outcome(id, &outcome);
        outcome
    }

    async fn locked(&self, table: &Adopted, row: &TakenRow, id: Uuid) -> Result<Outcome> {
        if let Err(error) = self.process(id, row.attempt).await {
            let message = format!("{error:#}");
            table
                .release_with_error(&row.id, row.token, &message)
                .await?;
            return Err(error);
        }
        Ok(match table.release(&row.id, row.token).await? {
            Release::Released => Outcome::Processed,
            Release::Stale => Outcome::ProcessedTwice,
        })
    }

    /// "Your processing logic goes here."
    async fn process(&self, id: Uuid, attempt: u32) -> Result<()> {
        info!("Processing presentation with ID: {id}");
        self.web_service.send(id, attempt).await
    }
}

/// Logs in the document's words, at its levels: `SEVERE` is an error here.
fn log_outcome(id: Uuid, outcome: &Result<Outcome>) {
    match outcome {
        Ok(Outcome::Skipped) => {
            info!("Presentation {id} already processed by another instance, skipping");
        }
        Ok(Outcome::ProcessedTwice) => {
            warn!("Presentation {id}: 0 filas afectadas, pero ya procesó");
        }
        Ok(Outcome::Processed) => info!("Presentation {id} processed successfully"),
        Err(error) => error!("Error processing presentation {id}: {error:#}"),
    }
}
