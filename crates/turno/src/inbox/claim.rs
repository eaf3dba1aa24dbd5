//! Claiming items without a worker.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::idle::Idle;
use super::{Inbox, wake_name};
use crate::Turno;
use crate::check;
use crate::error::Result;
use crate::store::{Batching, ClaimedItem, InboxClaim};
use crate::uncancelled::{self, ReleaseOnCancel};
use crate::waiting::{Waiter, wait_until};
use crate::wake::{Leads, Watch};

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

    /// Sets the maximum number of items, 1 to 10,000. Default: 1. A claim also ends at the total payload size of
    /// [`Settings::max_claim_bytes`](crate::Settings::max_claim_bytes).
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the lease: the claims expire after this time, unless they are extended. From 1 millisecond to 24 hours. Default: the
    /// TTL of the settings, 30 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Waits up to this long for a first item, at most 24 hours. Default: no wait.
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    ///
    /// let inbox = turno::Turno::connect("sqlite::memory:").await?.inbox("mail");
    /// assert!(inbox.claim().take().await?.is_empty());
    ///
    /// let claim = inbox.claim().worker("worker-1").wait(Duration::from_secs(10)).take();
    /// let (items, pushed) = tokio::join!(claim, inbox.push("hello"));
    /// assert_eq!(items?[0].id, pushed?.id);
    /// # Ok(()) }
    /// ```
    pub async fn take(self) -> Result<Vec<ClaimedItem>> {
        check::queue(self.inbox.queue())?;
        check::name("worker", &self.worker)?;
        check::lease(self.lease)?;
        check::wait(self.wait)?;
        check::limit(self.limit)?;
        if self.wait.is_zero() {
            return self.attempt().await;
        }
        let store = self.inbox.turno().store();
        if let Some(items) = store.inbox_claim_waiting(&self.ask(), self.wait).await? {
            return Ok(items);
        }
        let deadline = Instant::now() + self.wait;
        Box::pin(wait_until(deadline, ClaimWaiter::new(&self))).await
    }

    /// Claims once. If the caller is cancelled meanwhile, the items are given back.
    async fn attempt(&self) -> Result<Vec<ClaimedItem>> {
        let (inbox, ask) = (self.inbox.clone(), self.ask());
        let undelivered = uncancelled::run_to_completion(async move {
            let items = inbox.turno().store().inbox_claim(&ask).await?;
            let turno = inbox.turno().clone();
            Ok(ReleaseOnCancel::new(turno, (inbox, items), give_back))
        });
        let delivered = undelivered.await?.delivered();
        Ok(delivered.map_or_else(Vec::new, |(_, items)| items))
    }

    /// The parameters of one attempt. An attempt without items has claimed nothing, so each attempt may have the caller's
    /// request id.
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

async fn give_back(_: Turno, (inbox, items): (Inbox, Vec<ClaimedItem>)) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let claims: Vec<_> = items.iter().map(|item| item.claim).collect();
    inbox.give_back(&claims).await.map(drop)
}

/// Of the callers in this process that wait for one queue, one polls the store; the others wait for their turn.
struct ClaimWaiter<'a> {
    claim: &'a ClaimBuilder,
    idle: Idle,
    /// When the last attempt began.
    attempted: Instant,
    has_waited: bool,
    leads: Option<Leads>,
    watch: Watch,
}

impl<'a> ClaimWaiter<'a> {
    fn new(claim: &'a ClaimBuilder) -> Self {
        let inbox = &claim.inbox;
        let wakers = inbox.turno().store().wakers();
        ClaimWaiter {
            claim,
            idle: Idle::default(),
            attempted: Instant::now(),
            has_waited: false,
            leads: None,
            watch: wakers.watch(&wake_name(inbox.queue())),
        }
    }
}

impl Waiter for ClaimWaiter<'_> {
    type Outcome = Vec<ClaimedItem>;

    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn attempt(&mut self) -> Result<Vec<ClaimedItem>> {
        self.attempted = Instant::now();
        let items = self.claim.attempt().await?;
        if self.has_waited && self.leads.is_none() && !items.is_empty() {
            self.watch.give_turn();
        }
        Ok(items)
    }

    fn is_pending(items: &Vec<ClaimedItem>) -> bool {
        items.is_empty()
    }

    async fn next_attempt(&mut self, deadline: Instant) -> Option<Instant> {
        self.has_waited = true;
        self.leads = self.leads.take().or_else(|| self.watch.lead_in_turn());
        if self.leads.is_none() {
            tokio::select! {
                () = self.watch.turn() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
            return None;
        }
        let inbox = &self.claim.inbox;
        let longest = deadline
            .saturating_duration_since(Instant::now())
            .min(inbox.turno().settings().idle_poll_max);
        let store = inbox.turno().store();
        let pause = self
            .idle
            .pause(store, inbox.queue(), self.attempted, longest);
        Some(Instant::now() + pause.await?)
    }
}
