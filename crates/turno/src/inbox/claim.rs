//! Taking items by in_flight.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::idle::Idle;
use super::{Inbox, wake_name};
use crate::check;
use crate::error::Result;
use crate::store::Batching;
use crate::store::{ClaimedItem, InboxClaim};
use crate::uncancelled;

/// Options of a claim. Nothing happens before [`ClaimBuilder::take`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// use std::time::Duration;
///
/// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
/// inbox.push("hello").await?;
/// let items = inbox.claim().limit(10).lease(Duration::from_secs(60)).take().await?;
/// inbox.complete(&[items[0].claim]).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before take"]
pub struct ClaimBuilder {
    inbox: Inbox,
    worker: String,
    limit: u32,
    lease: Duration,
    wait: Duration,
    request: Option<Uuid>,
}

impl ClaimBuilder {
    pub(super) fn new(inbox: Inbox) -> Self {
        let settings = inbox.turno().settings();
        ClaimBuilder {
            worker: inbox.turno().worker_name(),
            limit: 1,
            lease: settings.ttl,
            wait: Duration::ZERO,
            request: None,
            inbox,
        }
    }

    /// Sets the worker's name, for lists and history. Default: host and process.
    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.worker = worker.into();
        self
    }

    /// Sets the maximum number of items. Default: 1.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the lease: the claims expire after this time, unless they are extended. Default: the TTL of the settings.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Waits up to this long for a first item. Default: no wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the request id of this claim. A claim that is repeated with the same id, because its response was lost, returns the
    /// same items. Default: a new id per call.
    pub fn request(mut self, request: Uuid) -> Self {
        self.request = Some(request);
        self
    }

    /// Claims items. Returns an empty list if none is due.
    ///
    /// Cancel-safe: if the future is dropped, items that were claimed meanwhile are given back at once.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the store is unavailable.
    pub async fn take(self) -> Result<Vec<ClaimedItem>> {
        check::queue(self.inbox.queue())?;
        check::name("worker", &self.worker)?;
        check::lease(self.lease)?;
        check::wait(self.wait)?;
        check::limit(self.limit)?;
        let store = self.inbox.turno().store();
        if !self.wait.is_zero()
            && let Some(items) = store.inbox_claim_waiting(&self.ask(), self.wait).await?
        {
            return Ok(items);
        }
        let deadline = Instant::now() + self.wait;
        let watch = store.wakers().watch(&wake_name(self.inbox.queue()));
        // Of all who wait for one queue in one process, one looks for all; the others sleep until it is their turn.
        let mut leads = None;
        let mut idle = Idle::default();
        let mut waited = false;
        loop {
            let woken = watch.next();
            let looked = Instant::now();
            let items = self.look().await?;
            if !items.is_empty() || Instant::now() >= deadline {
                if waited && leads.is_none() && !items.is_empty() {
                    watch.give_turn();
                }
                return Ok(items);
            }
            waited = true;
            leads = leads.or_else(|| watch.lead_in_turn());
            if leads.is_none() {
                tokio::select! {
                    () = watch.turn() => {}
                    () = tokio::time::sleep_until(deadline) => {}
                }
                continue;
            }
            let most = deadline.saturating_duration_since(Instant::now());
            let most = most.min(self.inbox.turno().settings().idle_poll_max);
            let Some(pause) = idle.pause(store, self.inbox.queue(), looked, most).await else {
                continue;
            };
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(pause) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// One look, asked to the end.
    async fn look(&self) -> Result<Vec<ClaimedItem>> {
        let (inbox, ask) = (self.inbox.clone(), self.ask());
        let undelivered = uncancelled::run_to_completion(async move {
            let items = inbox.turno().store().inbox_claim(&ask).await?;
            Ok(ReleaseOnCancel { inbox, items })
        });
        Ok(undelivered.await?.heard())
    }

    /// A look that finds nothing has claimed nothing: so the caller's own request is good for every look.
    fn ask(&self) -> InboxClaim {
        InboxClaim {
            queue: self.inbox.queue().to_owned(),
            worker: self.worker.clone(),
            limit: self.limit,
            lease: self.lease,
            request: self.request.unwrap_or_else(Uuid::now_v7),
            batching: match self.request {
                Some(_) => Batching::Alone,
                None => Batching::Batched,
            },
        }
    }
}

/// Items that were claimed for a caller that may be cancelled. Dropped, they are given back: no attempt has begun.
struct ReleaseOnCancel {
    inbox: Inbox,
    items: Vec<ClaimedItem>,
}

impl ReleaseOnCancel {
    fn heard(mut self) -> Vec<ClaimedItem> {
        std::mem::take(&mut self.items)
    }
}

impl Drop for ReleaseOnCancel {
    fn drop(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let claims: Vec<_> = self.items.iter().map(|item| item.claim).collect();
        let inbox = self.inbox.clone();
        self.inbox.turno().spawn_background(async move {
            if let Err(error) = inbox.give_back(&claims).await {
                tracing::debug!(%error, "not given back; the claims end by themselves");
            }
        });
    }
}
