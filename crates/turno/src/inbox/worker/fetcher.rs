//! Claims items for a worker's handlers, settles ended ones, and extends the claims in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::ahead::Ahead;
use super::in_flight::InFlight;
use crate::backoff::Backoff;
use crate::check;
use crate::error::{Error, Kind, Result};
use crate::inbox::idle::{Idle, POLL_GRACE};
use crate::inbox::{Inbox, wake_name};
use crate::store::{
    ClaimId, InboxClaim, InboxComplete, InboxExtend, InboxFail, InboxGiveBack, InboxTurn, Settled,
    Store,
};

/// Pauses after calls that failed.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// Maximum wait of one call of a store that waits itself.
const LONG_POLL: Duration = Duration::from_secs(60);

/// Counts of what a worker did.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) completed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) given_back: AtomicU64,
    pub(super) lost: AtomicU64,
}

impl Counts {
    fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

/// The fetch and settle loop of a worker.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) inbox: Inbox,
    pub(super) name: String,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) counts: Arc<Counts>,
    pub(super) ahead: Arc<Ahead>,
    pub(super) lease: Duration,
    pub(super) poll: Duration,
}

/// Calls without a response. They are repeated with the same request ids until they succeed.
#[derive(Debug, Default)]
pub(super) struct Pending {
    complete: Option<InboxComplete>,
    fail: Option<InboxFail>,
    /// The request id, and when it was first sent: the lease of its items is counted from then.
    claim: Option<(Uuid, Instant)>,
}

/// Result of one claim.
enum FetchResult {
    /// There may be more.
    More {
        /// Number of items.
        found: usize,
    },
    /// There were fewer items than there is room for.
    Short {
        /// When the claim began.
        looked: Instant,
        /// Number of items.
        found: usize,
    },
    /// There is not enough room for a claim.
    NoRoom,
}

impl Fetcher {
    /// Claims and settles until `stop` is cancelled. Returns the calls without a response.
    pub(super) async fn run(&self, stop: &CancellationToken) -> Pending {
        let watch = self.store().wakers().watch(&wake_name(self.inbox.queue()));
        let mut idle = Idle::default();
        let mut attempts = RETRY.attempts();
        let mut pending = Pending::default();
        while !stop.is_cancelled() {
            let woken = watch.next();
            let fetched = match self.fetch(&mut pending).await {
                Ok(fetched) => fetched,
                Err(error) => {
                    tracing::warn!(%error, queue = self.inbox.queue(), "the inbox is unavailable; retrying");
                    tokio::select! {
                        () = attempts.pause() => {}
                        () = stop.cancelled() => {}
                    }
                    continue;
                }
            };
            attempts.reset();
            match fetched {
                FetchResult::More { found } => {
                    idle.found(self.store(), self.inbox.queue(), found).await;
                    idle.rouse(self.store(), self.inbox.queue()).await;
                }
                FetchResult::NoRoom => tokio::select! {
                    () = self.in_flight.settle.notified() => {}
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(POLL_GRACE), if idle.is_polling() => {
                        idle.neglect(self.store(), self.inbox.queue()).await;
                    }
                },
                FetchResult::Short { looked, found } => {
                    if found > 0 {
                        idle.found(self.store(), self.inbox.queue(), found).await;
                    }
                    if self.claim_waiting(&mut pending, stop).await {
                        continue;
                    }
                    let queue = self.inbox.queue();
                    let Some(pause) = idle.pause(self.store(), queue, looked, self.poll).await
                    else {
                        continue;
                    };
                    tokio::select! {
                        () = woken => {}
                        () = self.in_flight.settle.notified() => {}
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => {}
                    }
                }
            }
        }
        idle.stop_polling(self.store(), self.inbox.queue()).await;
        pending
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.inbox.turno().store()
    }

    /// Settles ended items, and claims as many as there is room for.
    async fn fetch(&self, pending: &mut Pending) -> Result<FetchResult> {
        self.collect(pending);
        self.fail(pending).await?;
        let capacity = self.ahead.capacity();
        let room = capacity.saturating_sub(self.in_flight.count());
        // Claims when half of the room is free, because few large calls are cheaper than many small ones.
        if room * 2 < capacity {
            self.complete(pending).await?;
            return Ok(FetchResult::NoRoom);
        }
        let limit = room.min(check::MAX_ITEMS);
        let (request, began) = *pending
            .claim
            .get_or_insert_with(|| (Uuid::now_v7(), Instant::now()));
        let claim = self.ask(limit, request);
        let looked = Instant::now();
        let items = match pending.complete.clone() {
            None => self.store().inbox_claim(&claim).await?,
            Some(complete) => {
                let (settled, items) = self
                    .store()
                    .inbox_turn(&InboxTurn { complete, claim })
                    .await?;
                pending.complete = None;
                self.completed(&settled);
                items
            }
        };
        pending.claim = None;
        let bytes: usize = items.iter().map(|item| item.payload.len()).sum();
        let max_bytes = self.inbox.turno().settings().max_claim_bytes;
        // A claim that has many bytes may have left items because of its limit in bytes.
        let found = items.len();
        let fetched = if found == limit || (found > 0 && bytes >= max_bytes / 2) {
            FetchResult::More { found }
        } else {
            FetchResult::Short { looked, found }
        };
        self.in_flight.add(items, began + self.lease);
        Ok(fetched)
    }

    fn ask(&self, limit: usize, request: Uuid) -> InboxClaim {
        InboxClaim {
            queue: self.inbox.queue().to_owned(),
            worker: self.name.clone(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            lease: self.lease,
            request,
            batching: crate::Batching::Batched,
        }
    }

    /// Lets the store wait for an item, until there is something to settle. Returns false if the store does not support that. If
    /// the wait ends early, the store gives back what it still claims.
    async fn claim_waiting(&self, pending: &mut Pending, stop: &CancellationToken) -> bool {
        if pending.complete.is_some() || pending.fail.is_some() {
            return false;
        }
        let room = self.ahead.capacity().saturating_sub(self.in_flight.count());
        let limit = room.min(check::MAX_ITEMS);
        let (request, began) = (Uuid::now_v7(), Instant::now());
        let ask = self.ask(limit, request);
        // The lease is counted from now, because it is unknown when the items are claimed; so the wait is a part of it.
        let wait = LONG_POLL.min(self.lease / 3).min(self.poll);
        let waited = self.store().inbox_claim_waiting(&ask, wait);
        let waited = tokio::select! {
            waited = waited => waited,
            () = self.in_flight.settle.notified() => return true,
            () = stop.cancelled() => return true,
        };
        match waited {
            Ok(Some(items)) => {
                self.in_flight.add(items, began + self.lease);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::debug!(%error, "the store did not wait for an item; polling");
                // The response may be lost after a claim.
                pending.claim = Some((request, began));
                false
            }
        }
    }

    /// Collects the results of handlers, unless earlier ones are not settled yet.
    fn collect(&self, pending: &mut Pending) {
        let (done, failed) = match (&pending.complete, &pending.fail) {
            (None, None) => self.in_flight.take_settled(check::MAX_ITEMS),
            _ => return,
        };
        if !done.is_empty() {
            pending.complete = Some(InboxComplete {
                claims: done,
                request: Uuid::now_v7(),
            });
        }
        if !failed.is_empty() {
            pending.fail = Some(InboxFail {
                failures: failed,
                request: Uuid::now_v7(),
            });
        }
    }

    async fn complete(&self, pending: &mut Pending) -> Result<()> {
        if let Some(ask) = &pending.complete {
            let settled = self.store().inbox_complete(ask).await?;
            pending.complete = None;
            self.completed(&settled);
        }
        Ok(())
    }

    fn completed(&self, settled: &Settled) {
        Counts::add(&self.counts.completed, settled.done);
        self.stale(settled);
    }

    async fn fail(&self, pending: &mut Pending) -> Result<()> {
        if let Some(ask) = &pending.fail {
            let settled = self.store().inbox_fail(ask).await?;
            pending.fail = None;
            Counts::add(&self.counts.failed, settled.done);
            self.stale(&settled);
        }
        Ok(())
    }

    fn stale(&self, settled: &Settled) {
        for claim in &settled.stale {
            tracing::warn!(%claim, queue = self.inbox.queue(), "an item ended too late: another worker may have it");
        }
        Counts::add(&self.counts.lost, settled.stale.len() as u64);
    }

    /// Settles all that is left. Ends with an error if the store is unavailable.
    pub(super) async fn settle(&self, mut pending: Pending) -> Result<()> {
        loop {
            self.collect(&mut pending);
            if pending.complete.is_none() && pending.fail.is_none() {
                return Ok(());
            }
            self.fail(&mut pending).await?;
            self.complete(&mut pending).await?;
        }
    }

    /// Extends the claims in flight, and cancels the handlers of lost ones. Does not end.
    pub(super) async fn heartbeat(&self) -> std::convert::Infallible {
        // Some time before other workers may claim the items: a handler must not run without its claim.
        let margin = self.lease / 20;
        let mut pause = self.lease / 3;
        loop {
            tokio::time::sleep(pause).await;
            let began = Instant::now();
            let claims = self.in_flight.held();
            pause = self.lease / 3;
            for some in claims.chunks(check::MAX_ITEMS) {
                let ask = InboxExtend {
                    claims: some.to_vec(),
                    lease: self.lease,
                };
                // A store that is unreachable may not answer before the claims end.
                let until = Instant::now() + self.lease / 3;
                let until = until.min(self.in_flight.first_end() - margin);
                let extended = tokio::time::timeout_at(until, self.store().inbox_extend(&ask));
                match extended.await.unwrap_or_else(|_| Err(no_answer())) {
                    Ok(settled) => {
                        self.in_flight.extended(some, began + self.lease);
                        // Claims that were settled meanwhile are stale too, and are not held any more.
                        self.lose(&settled.stale);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "claims could not be extended; retrying");
                        pause = (self.lease / 20).min(RETRY.longest);
                    }
                }
            }
            self.lose(&self.in_flight.overdue(Instant::now() + margin + pause));
        }
    }

    fn lose(&self, claims: &[ClaimId]) {
        let many = self.in_flight.lost(claims);
        if many > 0 {
            tracing::warn!(
                many,
                queue = self.inbox.queue(),
                "claims were lost, and their handlers cancelled"
            );
            Counts::add(&self.counts.lost, many);
        }
    }

    /// Gives back items that were not started.
    pub(super) async fn give_back(&self, claims: Vec<ClaimId>) {
        if claims.is_empty() {
            return;
        }
        let ask = InboxGiveBack {
            claims,
            request: Uuid::now_v7(),
        };
        match self.store().inbox_give_back(&ask).await {
            Ok(settled) => Counts::add(&self.counts.given_back, settled.done),
            Err(error) => {
                tracing::warn!(%error, "items were not given back; their claims expire");
            }
        }
    }
}

fn no_answer() -> Error {
    Error::new(Kind::Unavailable, "the store has not responded in time")
}
