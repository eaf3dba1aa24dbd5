//! An item in a handler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::check::MAX_DELAY;
use crate::error::Result;
use crate::store::{Again, ClaimId, ClaimedItem, ItemId};
use crate::tx::Transaction;

/// An item that a handler processes. [`Worker::run`](super::Worker::run) has an example.
#[derive(Debug)]
pub struct Job<T> {
    /// The deserialized payload.
    pub payload: T,
    pub(super) item: ClaimedItem,
    pub(super) state: Arc<JobState>,
}

/// State of a job while its handler runs.
#[derive(Debug, Default)]
pub(super) struct JobState {
    /// Cancelled when the claim is lost: another worker may have the item.
    pub(super) lost: CancellationToken,
    /// Whether the handler has completed it in its own transaction.
    settled: AtomicBool,
    after: Mutex<After>,
}

/// What happens after a failure of the job.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct After {
    pub(super) retry_in: Option<Duration>,
    pub(super) again: Again,
}

impl JobState {
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    pub(super) fn after(&self) -> After {
        *self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_after(&self, set: impl FnOnce(&mut After)) {
        set(&mut self.after.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<T> Job<T> {
    /// Returns the item's id.
    pub fn id(&self) -> ItemId {
        self.item.claim.item
    }

    /// Returns the item's claim.
    pub fn claim(&self) -> ClaimId {
        self.item.claim
    }

    /// Returns the number of this attempt, from 1. Attempts of crashed workers count.
    pub fn attempt(&self) -> u32 {
        self.item.attempt
    }

    /// Returns whether this is the last attempt.
    pub fn is_last_attempt(&self) -> bool {
        self.item.attempt >= self.item.max_attempts
    }

    /// Returns the item's unique key.
    pub fn unique_key(&self) -> Option<&str> {
        self.item.key.as_deref()
    }

    /// Returns the item's group.
    pub fn group(&self) -> Option<&str> {
        self.item.group.as_deref()
    }

    /// Returns when the item was pushed, on the store's clock.
    pub fn pushed_at(&self) -> Timestamp {
        self.item.pushed_at
    }

    /// Returns a token that is cancelled when the claim is lost. The handler's future is dropped then; the token is for work
    /// outside of it, such as a thread.
    pub fn lost(&self) -> CancellationToken {
        self.state.lost.clone()
    }

    /// Completes the item in the caller's transaction: effect and completion commit together, or not at all.
    ///
    /// Call it last, before the commit, and return `Ok` from the handler. If the commit fails, return `Err`, and the attempt
    /// has failed.
    ///
    /// # Errors
    /// Returns an error ([`Error::is_lost`](crate::Error::is_lost)) if another worker may have the item: the caller must roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # let done = tokio_util::sync::CancellationToken::new();
    /// # let stop = done.clone();
    /// # let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// # let inbox = turno.inbox("mail");
    /// # inbox.push(&7).await?;
    /// # rusqlite::Connection::open(&file)?.execute_batch("create table payment (loan integer)")?;
    /// let handler = move |job: turno::inbox::Job<u32>| {
    /// #     let (file, stop) = (file.clone(), stop.clone());
    ///     async move {
    ///         let mut connection = rusqlite::Connection::open(&file)?;
    ///         let mut tx = turno::tx::SqliteTransaction::begin(&mut connection)?;
    ///         tx.execute("insert into payment values (?1)", [job.payload])?;
    ///         job.complete_in(&mut tx).await?;
    ///         tx.commit()?;
    /// #         stop.cancel();
    ///         Ok::<_, turno::HandlerError>(())
    ///     }
    /// };
    /// # let shutdown = done.cancelled();
    /// inbox.worker(handler).run(shutdown).await?;
    /// assert_eq!(inbox.stats().await?.completed, 1);
    /// # Ok(()) }
    /// ```
    pub async fn complete_in(&self, tx: &mut impl Transaction) -> Result<()> {
        let claim = self.claim();
        if let Some(claim) = tx.inbox_complete(&[claim]).await?.stale.first() {
            return Err(crate::inbox::stale(claim));
        }
        self.state.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// If this attempt fails, the item is retried after this delay. Default: an exponential backoff. A delay of more than ten
    /// years is ten years: an error here would keep the worker from recording what it did.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    /// use turno::inbox::Job;
    /// # let done = tokio_util::sync::CancellationToken::new();
    /// # let stop = done.clone();
    /// # let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// # inbox.push("hello").await?;
    ///
    /// let handler = move |job: Job<String>| {
    /// #     let stop = stop.clone();
    ///     async move {
    ///         job.retry_in(Duration::from_secs(3600)); // the mail server asks for an hour
    /// #         stop.cancel();
    ///         Err::<(), _>("the mail server is busy")
    ///     }
    /// };
    /// # let shutdown = done.cancelled();
    /// inbox.worker(handler).run(shutdown).await?;
    /// assert_eq!(inbox.stats().await?.scheduled, 1);
    /// # Ok(()) }
    /// ```
    pub fn retry_in(&self, delay: Duration) {
        let delay = delay.min(MAX_DELAY);
        self.state.set_after(|after| after.retry_in = Some(delay));
    }

    /// If this attempt fails, the item is not retried: it counts as failed at once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::inbox::Job;
    /// # let done = tokio_util::sync::CancellationToken::new();
    /// # let stop = done.clone();
    /// # let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// # inbox.push("hello").await?;
    ///
    /// let handler = move |job: Job<String>| {
    /// #     let stop = stop.clone();
    ///     async move {
    ///         job.fail_permanently(); // another attempt would fail too
    /// #         stop.cancel();
    ///         Err::<(), _>("there is no such address")
    ///     }
    /// };
    /// # let shutdown = done.cancelled();
    /// inbox.worker(handler).run(shutdown).await?;
    /// assert_eq!(inbox.stats().await?.failed, 1);
    /// # Ok(()) }
    /// ```
    pub fn fail_permanently(&self) {
        self.state.set_after(|after| after.again = Again::Never);
    }
}
