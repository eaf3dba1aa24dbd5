//! Store methods of the inbox.

use std::time::Duration;

use async_trait::async_trait;
pub use turno_api::ids::{ClaimId, ItemId};
pub use turno_api::inbox::{
    Again, AttemptError, Batching, ClaimedItem, DEFAULT_ATTEMPTS, DEFAULT_PRIORITY, Due,
    ERRORS_KEPT, Failure, IDLE_ALIVE, InboxClaim, InboxComplete, InboxConfigure, InboxExtend,
    InboxFail, InboxFailedItems, InboxGiveBack, InboxIdle, InboxIdleness, InboxList, InboxPush,
    InboxReset, InboxStats, InboxTurn, ItemState, ItemView, MAX_DOUBTS, NewItem, PRIORITIES,
    PushedItem, QueueSettings, QueueStats, Rate, SettingsChange, Settled, UNLIMITED_ATTEMPTS,
};

use crate::error::{Error, Kind, Result};

/// Store methods of the inbox.
#[async_trait]
pub trait InboxStore {
    /// Pushes items, all or none. An item whose key exists in the queue is reported as a duplicate.
    async fn inbox_push(&self, ask: &InboxPush) -> Result<Vec<PushedItem>>;

    /// Claims due items by priority and then by age, in the order in which they should be processed.
    async fn inbox_claim(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>>;

    /// [`InboxStore::inbox_claim`] for a store that waits for a first item itself: no items if none was due in time.
    /// Default: `None`, the library waits.
    async fn inbox_claim_waiting(
        &self,
        ask: &InboxClaim,
        wait: Duration,
    ) -> Result<Option<Vec<ClaimedItem>>> {
        let _ = (ask, wait);
        Ok(None)
    }

    /// Completes claimed items.
    async fn inbox_complete(&self, ask: &InboxComplete) -> Result<Settled>;

    /// Completes claimed items and claims the next ones, in one step.
    async fn inbox_turn(&self, ask: &InboxTurn) -> Result<(Settled, Vec<ClaimedItem>)>;

    /// Records failed attempts: each item is attempted again later, or has failed.
    async fn inbox_fail(&self, ask: &InboxFail) -> Result<Settled>;

    /// Gives back claimed items whose processing has not begun: pending at once, and the attempt does not count.
    async fn inbox_give_back(&self, ask: &InboxGiveBack) -> Result<Settled>;

    /// Extends claims; never shortens one. The items of one claim share its lease.
    async fn inbox_extend(&self, ask: &InboxExtend) -> Result<Settled>;

    /// Requeues failed items with all their attempts, and records it. Returns how many.
    async fn inbox_requeue(&self, ask: &InboxFailedItems) -> Result<u64>;

    /// Deletes failed items with their errors, and records it. Their keys stay known as those of completed items do.
    /// Returns how many.
    async fn inbox_discard(&self, ask: &InboxFailedItems) -> Result<u64>;

    /// Ends the claims of workers that have held items for too long, and records it. Returns how many items.
    async fn inbox_reset(&self, ask: &InboxReset) -> Result<u64>;

    /// Returns the settings of a queue. A queue that does not exist has none.
    async fn inbox_settings(&self, queue: &str) -> Result<QueueSettings>;

    /// Changes settings of a queue, and records it. Returns all of them. Every claim that begins later follows them.
    async fn inbox_configure(&self, ask: &InboxConfigure) -> Result<QueueSettings>;

    /// Returns the number of items per state of each queue, in order of their names. A queue exists from its first push.
    async fn inbox_stats(&self, ask: &InboxStats) -> Result<Vec<QueueStats>>;

    /// Returns one page of a queue's items in one state.
    async fn inbox_list(&self, ask: &InboxList) -> Result<Vec<ItemView>>;

    /// Returns the queue of each claim (`None` if it has ended); used for authorization. Optional: the default returns an
    /// error.
    async fn inbox_queues(&self, claims: &[ClaimId]) -> Result<Vec<Option<String>>> {
        let _ = claims;
        Err(Error::refused(
            "this store does not tell in which queues claims are: ask the store behind it",
        ))
    }

    /// Registers an idle worker: for [`IDLE_ALIVE`], a push to the queue wakes it. Returns the time until there may be work
    /// without a push: the next due time, or the end of another worker's claim.
    async fn inbox_wait(&self, queue: &str) -> Result<Option<Duration>>;

    /// Registers an idle worker, and returns how long it may sleep. Default: [`InboxStore::inbox_wait`], without a guarantee
    /// that a push wakes it.
    async fn inbox_idle(&self, ask: &InboxIdle) -> Result<InboxIdleness> {
        Ok(InboxIdleness {
            due: self.inbox_wait(&ask.queue).await?,
            sure: None,
        })
    }

    /// Says that a worker claims at short intervals for `lasts` from now, so that pushes need not wake it; zero ends that. Returns
    /// whether the store's pushes are cheaper then. Default: false, and the worker waits to be woken.
    async fn inbox_poll(&self, queue: &str, lasts: Duration) -> Result<bool> {
        let _ = (queue, lasts);
        Ok(false)
    }

    /// Wakes the idle workers of a queue that has more items than its busy workers can take, and deletes registrations that have
    /// expired. Default: does nothing, because every push wakes.
    async fn inbox_rouse(&self, queue: &str) -> Result<()> {
        let _ = queue;
        Ok(())
    }
}

/// Parses the errors of an item as both stores keep them.
pub(crate) fn attempt_errors(json: &str) -> Result<Vec<AttemptError>> {
    serde_json::from_str(json).map_err(|error| {
        Error::caused(
            Kind::Broken,
            "the errors of an item are not as they were written",
            error,
        )
    })
}

/// Parses the settings of a queue as both stores keep them.
pub(crate) fn queue_settings(json: &str) -> Result<QueueSettings> {
    serde_json::from_str(json).map_err(|error| {
        let message = "the settings of a queue are not as they were written: a newer Turno may have changed them; upgrade this program";
        Error::caused(Kind::Schema, message, error)
    })
}

/// Returns settings, or a change of them, as both stores keep them.
pub(crate) fn settings_text(settings: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(settings).map_err(|error| {
        Error::caused(
            Kind::Broken,
            "the settings of a queue cannot be written",
            error,
        )
    })
}
