//! Taking items by hand.

use std::time::Duration;

use tokio::time::Instant;

use super::idle::Idle;
use super::{Inbox, wake_name};
use crate::check;
use crate::error::Result;
use crate::own_task;
use crate::store::Batching;
use crate::store::{ClaimedItem, InboxClaim};

/// A claim to be made. Nothing happens before [`Claim::take`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before take"]
pub struct Claim {
    inbox: Inbox,
    worker: String,
    limit: u32,
    lease: Duration,
    wait: Duration,
}

impl Claim {
    pub(super) fn new(inbox: Inbox) -> Self {
        let settings = inbox.turno().settings();
        Claim {
            worker: inbox.turno().worker_name(),
            limit: 1,
            lease: settings.ttl,
            wait: Duration::ZERO,
            inbox,
        }
    }

    /// Who claims, as people see it; this host and process otherwise.
    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.worker = worker.into();
        self
    }

    /// At the most this many; one otherwise.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// How long the claims live unless extended.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Waits this long for a first item.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Claims. None, if there is nothing to do.
    ///
    /// Cancel-safe: items that were claimed for a caller who has given up meanwhile go back at once.
    ///
    /// # Errors
    /// If an argument is out of rule, or the store does not answer.
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
        let unheard = own_task::ask(async move {
            let items = inbox.turno().store().inbox_claim(&ask).await?;
            Ok(Unheard { inbox, items })
        });
        Ok(unheard.await?.heard())
    }

    /// A look that finds nothing has claimed nothing: so the caller's own request is good for every look.
    fn ask(&self) -> InboxClaim {
        InboxClaim {
            queue: self.inbox.queue().to_owned(),
            worker: self.worker.clone(),
            limit: self.limit,
            lease: self.lease,
            request: self.inbox.own_request(),
            batching: match self.inbox.request {
                Some(_) => Batching::Alone,
                None => Batching::Batched,
            },
        }
    }
}

/// Items that nobody has in hand yet. Dropped, they go back: no attempt has begun.
struct Unheard {
    inbox: Inbox,
    items: Vec<ClaimedItem>,
}

impl Unheard {
    fn heard(mut self) -> Vec<ClaimedItem> {
        std::mem::take(&mut self.items)
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let claims: Vec<_> = self.items.iter().map(|item| item.claim).collect();
        // Not the handle that claimed: its request is the claim's.
        let inbox = self.inbox.turno().inbox(self.inbox.queue());
        self.inbox.turno().behind(async move {
            if let Err(error) = inbox.give_back(&claims).await {
                tracing::debug!(%error, "not given back; the claims end by themselves");
            }
        });
    }
}
