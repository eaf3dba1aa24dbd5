//! Between the store and a worker's in_flight: settles what is done, fetches what is next, keeps alive what is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::in_flight::InFlight;
use crate::backoff::Backoff;
use crate::check;
use crate::error::{Error, Kind, Result};
use crate::inbox::idle::Idle;
use crate::inbox::{Inbox, wake_name};
use crate::store::{
    ClaimId, InboxClaim, InboxComplete, InboxExtend, InboxFail, InboxGiveBack, InboxTurn, Settled,
    Store,
};

/// Pauses after calls that failed.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// How long a store that waits by itself is asked to, at the most.
const LONG_POLL: Duration = Duration::from_secs(60);

/// What a worker did.
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

/// How a worker fetches.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) inbox: Inbox,
    pub(super) name: String,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) counts: Arc<Counts>,
    /// The most that is held at once.
    pub(super) capacity: usize,
    pub(super) lease: Duration,
    pub(super) poll: Duration,
}

/// What is on its way to the store. Kept until it is answered, and asked again with the same request.
#[derive(Debug, Default)]
pub(super) struct Pending {
    complete: Option<InboxComplete>,
    fail: Option<InboxFail>,
    /// The request, and when it was first made: what it claims is good from then on.
    claim: Option<(Uuid, Instant)>,
}

/// What came of a turn.
enum Turned {
    /// There may be more.
    More,
    /// There was not as much as there is room for.
    Short {
        /// When it was looked for.
        looked: Instant,
        /// Whether there was anything.
        found: bool,
    },
    /// There is no room.
    NoRoom,
}

impl Fetcher {
    /// Fetches and settles until told to stop. What is not settled then is left in the in_flight, or pending.
    pub(super) async fn run(&self, stop: &CancellationToken) -> Pending {
        let watch = self.store().wakers().watch(&wake_name(self.inbox.queue()));
        let mut idle = Idle::default();
        let mut attempts = RETRY.attempts();
        let mut pending = Pending::default();
        while !stop.is_cancelled() {
            let woken = watch.next();
            let turned = match self.turn(&mut pending).await {
                Ok(turned) => turned,
                Err(error) => {
                    tracing::warn!(%error, queue = self.inbox.queue(), "the inbox does not answer; trying again");
                    tokio::select! {
                        () = attempts.pause() => {}
                        () = stop.cancelled() => {}
                    }
                    continue;
                }
            };
            attempts.reset();
            match turned {
                Turned::More => {
                    idle.end();
                    idle.rouse(self.store(), self.inbox.queue()).await;
                }
                Turned::NoRoom => tokio::select! {
                    () = self.in_flight.settle.notified() => {}
                    () = stop.cancelled() => {}
                },
                Turned::Short { looked, found } => {
                    if found {
                        idle.end();
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
        pending
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.inbox.turno().store()
    }

    /// Settles what there is and fetches what there is room for.
    async fn turn(&self, pending: &mut Pending) -> Result<Turned> {
        self.collect(pending);
        self.fail(pending).await?;
        let room = self.capacity.saturating_sub(self.in_flight.count());
        // Not one by one: few large calls are cheaper than many small ones.
        if room * 2 < self.capacity {
            self.complete(pending).await?;
            return Ok(Turned::NoRoom);
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
        let turned = if items.len() == limit || (!items.is_empty() && bytes >= max_bytes / 2) {
            Turned::More
        } else {
            Turned::Short {
                looked,
                found: !items.is_empty(),
            }
        };
        self.in_flight.deal(items, began + self.lease);
        Ok(turned)
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

    /// Leaves the waiting to a store that can wait by itself, until there is something to settle; false if it cannot. What is
    /// claimed for one that has given up goes back.
    async fn claim_waiting(&self, pending: &mut Pending, stop: &CancellationToken) -> bool {
        if pending.complete.is_some() || pending.fail.is_some() {
            return false;
        }
        let room = self.capacity.saturating_sub(self.in_flight.count());
        let limit = room.min(check::MAX_ITEMS);
        let (request, began) = (Uuid::now_v7(), Instant::now());
        let ask = self.ask(limit, request);
        // What comes is only good for its lease from now on, because it is not known when it was claimed.
        let wait = LONG_POLL.min(self.lease / 3).min(self.poll);
        let waited = self.store().inbox_claim_waiting(&ask, wait);
        let waited = tokio::select! {
            waited = waited => waited,
            () = self.in_flight.settle.notified() => return true,
            () = stop.cancelled() => return true,
        };
        match waited {
            Ok(Some(items)) => {
                self.in_flight.deal(items, began + self.lease);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::debug!(%error, "the store did not wait for an item; looking");
                // It may have been claimed, and the answer lost.
                pending.claim = Some((request, began));
                false
            }
        }
    }

    /// Takes over what handlers have finished, unless the last of it is still to be settled.
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
            tracing::warn!(%claim, queue = self.inbox.queue(), "finished too late: another worker may have the item");
        }
        Counts::add(&self.counts.lost, settled.stale.len() as u64);
    }

    /// Settles everything that is left, as long as the store answers.
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

    /// Keeps what is held alive, and stops the handlers of what is lost. Never ends by itself.
    pub(super) async fn beat(&self) -> std::convert::Infallible {
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
                let extended =
                    tokio::time::timeout(self.lease / 3, self.store().inbox_extend(&ask));
                match extended.await.unwrap_or_else(|_| Err(no_answer())) {
                    Ok(settled) => {
                        self.in_flight.extended(some, began + self.lease);
                        // Those that were settled meanwhile are not held any more, and not lost.
                        self.lose(&settled.stale);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "claims could not be extended; trying again");
                        pause = (self.lease / 20).min(RETRY.longest);
                    }
                }
            }
            // A little before others may take them: a handler must not go on without its claim.
            let margin = self.lease / 20;
            self.lose(&self.in_flight.overdue(Instant::now() + margin + pause));
        }
    }

    fn lose(&self, claims: &[ClaimId]) {
        let many = self.in_flight.lost(claims);
        if many > 0 {
            tracing::warn!(
                many,
                queue = self.inbox.queue(),
                "claims were lost, and their handlers stopped"
            );
            Counts::add(&self.counts.lost, many);
        }
    }

    /// Gives back what was not begun, at once.
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
                tracing::warn!(%error, "items were not given back; their claims end by themselves");
            }
        }
    }
}

fn no_answer() -> Error {
    Error::new(Kind::Unavailable, "the store has not answered in time")
}
