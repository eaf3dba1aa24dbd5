//! The document's `ProcessPresentationUseCase`, once for each way of keeping instances apart.

use anyhow::{Result, bail};
use tracing::{error, info, warn};
use turno::inbox::Job;
use uuid::Uuid;

use crate::database::{Database, Presentation};
use crate::how::How;
use crate::inbox_repository::InboxRepository;
use crate::web_service_client::WebServiceClient;

/// What became of a presentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The web service has it.
    Processed,
    /// Another instance has it.
    Skipped,
    /// The web service has it, and had it from another instance too.
    ProcessedTwice,
}

/// Sends one presentation to the web service.
#[derive(Debug, Clone)]
pub struct ProcessPresentationUseCase {
    /// In which way.
    pub how: How,
    /// Where the presentations are.
    pub database: Database,
    /// Where they are sent.
    pub web_service: WebServiceClient,
}

impl ProcessPresentationUseCase {
    /// Processes a presentation, unless another instance does. A failure leaves it unprocessed, for the next run.
    ///
    /// # Errors
    /// If the web service or the database refuses.
    pub async fn execute(&self, presentation_id: Uuid) -> Result<Outcome> {
        info!("Attempting to process presentation with ID: {presentation_id}");
        let outcome = match self.how {
            // A partition is nobody else's, so nothing is asked of the row.
            How::PlainSelect | How::HashPartition => self.plain_select(presentation_id).await,
            How::ConditionalUpdate => self.conditional_update(presentation_id).await,
            How::ConditionalUpdateInTransaction => self.in_transaction(presentation_id).await,
            How::SkipLocked => self.skip_locked(presentation_id).await,
            How::RepeatableRead => self.repeatable_read(presentation_id).await,
            How::Turno => bail!("a worker hands presentations to execute_job"),
        };
        match &outcome {
            Ok(Outcome::Skipped) => info!(
                "Presentation {presentation_id} already processed by another instance, skipping"
            ),
            Ok(Outcome::ProcessedTwice) => {
                warn!("Presentation {presentation_id}: 0 filas afectadas, pero ya procesó");
            }
            Ok(Outcome::Processed) => {
                info!("Presentation {presentation_id} processed successfully");
            }
            Err(error) => error!("Error processing presentation {presentation_id}: {error:#}"),
        }
        outcome
    }

    /// T1 to T5 of the problem: whoever has selected it calls.
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

    /// The mark is committed, so nobody waits for this call; and it stays if this process dies in it.
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

    /// As the document writes it, with `@Transactional` around everything.
    async fn in_transaction(&self, id: Uuid) -> Result<Outcome> {
        let mut inbox = InboxRepository::begin(&self.database).await?;
        if inbox.try_mark_as_processing(id).await? == 0 {
            inbox.rollback().await?;
            return Ok(Outcome::Skipped);
        }
        if let Err(error) = self.process(id, 1).await {
            // The document does both. Either would do: the rollback undoes the mark, and this with it.
            inbox.mark_as_unprocessed(id).await?;
            inbox.rollback().await?;
            return Err(error);
        }
        inbox.commit().await?;
        Ok(Outcome::Processed)
    }

    /// A locked row is passed over, and not waited for.
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

    /// The database refuses the second mark, when the second call has been made.
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

    /// Turno has claimed it for this worker: a claim ends by itself if the worker dies, and the next attempt is counted.
    /// Nothing is locked during the call. Mark and completion commit together.
    ///
    /// # Errors
    /// If the web service or the database refuses, or another worker has the presentation by now.
    pub async fn execute_job(&self, job: Job<Presentation>) -> Result<()> {
        let id = job.payload.id;
        self.process(id, job.attempt()).await?;
        let mut inbox = InboxRepository::begin(&self.database).await?;
        inbox.try_mark_as_processing(id).await?;
        inbox.complete(&job).await?;
        inbox.commit().await
    }

    /// "Your processing logic goes here."
    async fn process(&self, id: Uuid, attempt: u32) -> Result<()> {
        info!("Processing presentation with ID: {id}");
        self.web_service.send(id, attempt).await
    }
}
