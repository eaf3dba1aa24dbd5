//! An item in a handler's hands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::store::{Again, ClaimId, ClaimedItem, ItemId};
use crate::tx::Transaction;

/// One item in its handler.
#[derive(Debug)]
pub struct Job<T> {
    /// The work.
    pub payload: T,
    pub(super) item: ClaimedItem,
    pub(super) state: Arc<JobState>,
}

/// What is known of a job while its handler runs.
#[derive(Debug, Default)]
pub(super) struct JobState {
    /// The claim is gone: another worker may have the item.
    pub(super) lost: CancellationToken,
    /// The handler has completed it in a transaction of its own.
    settled: AtomicBool,
    after: Mutex<After>,
}

/// What a failure of the job is to be followed by.
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
    /// The item's number.
    pub fn id(&self) -> ItemId {
        self.item.claim.item
    }

    /// The claim under which it is held.
    pub fn claim(&self) -> ClaimId {
        self.item.claim
    }

    /// Counted from one, those of vanished workers included.
    pub fn attempt(&self) -> u32 {
        self.item.attempt
    }

    /// Whether this is the last attempt.
    pub fn is_last_attempt(&self) -> bool {
        self.item.attempt >= self.item.max_attempts
    }

    /// Returns the item's unique key.
    pub fn unique_key(&self) -> Option<&str> {
        self.item.key.as_deref()
    }

    /// Its group.
    pub fn group(&self) -> Option<&str> {
        self.item.group.as_deref()
    }

    /// When it was pushed, on the store's clock.
    pub fn pushed_at(&self) -> Timestamp {
        self.item.pushed_at
    }

    /// Cancelled when the claim is lost. The handler's future is dropped then; this is for work that goes on
    /// elsewhere, such as in a thread.
    pub fn lost(&self) -> CancellationToken {
        self.state.lost.clone()
    }

    /// Completes the item in your own transaction: effect and completion commit together, or not at all.
    ///
    /// As the last statement before the commit; the handler then answers `Ok`. If the commit fails it answers
    /// `Err`, and the attempt counts as failed.
    ///
    /// # Errors
    /// Returns an error ([`Error::is_lost`](crate::Error::is_lost)) if another worker may have the item: the caller must roll back.
    pub async fn complete_in(&self, tx: &mut impl Transaction) -> Result<()> {
        let claim = self.claim();
        if let Some(claim) = tx.inbox_complete(&[claim]).await?.stale.first() {
            return Err(crate::inbox::stale(claim));
        }
        self.state.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// If this attempt fails, the item is retried after this delay. Default: an exponential backoff.
    pub fn retry_in(&self, delay: Duration) {
        self.state.set_after(|after| after.retry_in = Some(delay));
    }

    /// If this attempt fails, the item is not retried: it counts as failed at once.
    pub fn fail_permanently(&self) {
        self.state.set_after(|after| after.again = Again::Never);
    }
}
