//! The pipeline of a relay: while one batch is published, the previous one is settled and the next one is claimed.
//!
//! In modes that allow several relays, one relay runs two pipelines, so that neither the broker nor the database waits for the
//! other.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::batch::{self, Batch, Verdict};
use super::breaker::{Breaker, Trial};
use super::rest::Rest;
use super::routes::Routes;
use super::{Mode, Relay, RelayReport};
use crate::backoff::Backoff;
use crate::inbox::idle::Idle;
use crate::inbox::wake_name;
use crate::store::{AfterRefusal, ClaimId, ItemId, OUTBOX_QUEUE, OutboxClaim, OutboxSettle};
use crate::waiting::growing_pause;

/// Pauses after calls that failed.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// Timeout for storing the last results at a shutdown.
const LAST_SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of batches that are published at the same time if their order does not matter.
const CONCURRENCY: u32 = 2;

/// While a batch with fewer events than this is published, the next claim waits a little. A claim costs the database about as much for
/// one event as for this many, and under a steady load of single events each claim would find one.
const SMALL: usize = 16;
/// How long it waits.
const GATHER: Duration = Duration::from_millis(2);

/// Counts of what a relay did.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sent: AtomicU64,
    skipped: AtomicU64,
    refused: AtomicU64,
    dead: AtomicU64,
    returned: AtomicU64,
    stale: AtomicU64,
    outages: AtomicU64,
}

impl Counts {
    fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> RelayReport {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RelayReport {
            // The store does not tell dropped events from published ones.
            sent: read(&self.sent).saturating_sub(read(&self.skipped)),
            skipped: read(&self.skipped),
            refused: read(&self.refused),
            dead: read(&self.dead),
            returned: read(&self.returned),
            stale: read(&self.stale),
            outages: read(&self.outages),
        }
    }
}

/// A claim that is held: one of its items, and the end of its lease by this process's clock, with a margin.
#[derive(Debug, Clone, Copy)]
struct Held {
    first: ItemId,
    good_until: Instant,
}

/// One relay at work.
#[derive(Debug)]
pub(super) struct Pipeline<'a> {
    relay: &'a Relay,
    counts: &'a Counts,
    breaker: &'a Breaker,
    routes: &'a Routes,
    held: Mutex<BTreeMap<Uuid, Held>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(
        relay: &'a Relay,
        counts: &'a Counts,
        breaker: &'a Breaker,
        routes: &'a Routes,
    ) -> Self {
        Pipeline {
            relay,
            counts,
            breaker,
            routes,
            held: Mutex::default(),
        }
    }

    /// Publishes until `stop` is cancelled, and then finishes the batches in progress. In mode [`Mode::Single`] it also ends when
    /// there is nothing to publish, and returns how to wait.
    pub(super) async fn run(&self, stop: &CancellationToken) -> Option<Rest> {
        let batch = self.relay.batch;
        let publish = async {
            match self.relay.mode {
                Mode::Single => self.publish_batches(batch, stop).await,
                Mode::Parallel | Mode::Ordered => {
                    let each = batch.div_ceil(CONCURRENCY);
                    tokio::join!(
                        self.publish_batches(each, stop),
                        self.publish_batches(each, stop)
                    );
                    None
                }
            }
        };
        tokio::select! {
            rest = publish => rest,
            never = self.heartbeat() => match never {},
        }
    }

    async fn publish_batches(&self, batch: u32, stop: &CancellationToken) -> Option<Rest> {
        let store = self.relay.outbox.turno().store();
        let watch = store.wakers().watch(&wake_name(OUTBOX_QUEUE));
        let mut idle = Idle::default();
        let mut idle_since: Option<Instant> = None;
        let mut worked: Option<Instant> = None;
        let mut current: Option<Batch> = None;
        let mut settle: Option<OutboxSettle> = None;
        let sink = &*self.relay.sink;
        let mut trial: Option<Trial<'_>> = None;
        loop {
            let is_shut = trial.is_none() && self.breaker.is_open();
            if is_shut || stop.is_cancelled() {
                self.finish(settle.take(), current.take(), stop).await;
                idle.stop_polling(store, OUTBOX_QUEUE).await;
                if stop.is_cancelled() {
                    return None;
                }
                trial = self.breaker.enter(sink, stop).await?;
            }
            let woken = watch.next();
            let looked = Instant::now();
            let before = settle.take();
            // In order, the next event of a key cannot be claimed before this one is settled, so there is little to gather.
            let gathers = self.relay.mode != Mode::Ordered
                && current
                    .as_ref()
                    .is_some_and(|batch| batch.events.len() < SMALL);
            let settle_and_claim = async {
                if let Some(before) = before {
                    self.settle(&before, stop).await;
                }
                if gathers {
                    tokio::time::sleep(GATHER).await;
                }
                self.claim(batch.min(self.breaker.allowed()), stop).await
            };
            current = match current.take() {
                None => settle_and_claim.await,
                Some(batch) => {
                    let good_until = || self.held().get(&batch.token).map(|held| held.good_until);
                    let publish = batch.publish(self.relay, self.routes, good_until);
                    let (published, next) = tokio::join!(publish, settle_and_claim);
                    settle = Some(published.settle);
                    Counts::add(&self.counts.skipped, published.skipped);
                    match published.verdict {
                        Verdict::Outage(outage) => {
                            Counts::add(&self.counts.outages, 1);
                            self.breaker.outage(sink, &outage, trial.take());
                        }
                        Verdict::Answered => self.breaker.success(sink, trial.take()),
                        Verdict::Unknown => {}
                    }
                    next
                }
            };
            if let Some(current) = &current {
                idle_since = None;
                worked = Some(Instant::now());
                // Inserts into an outbox table do not notify.
                if !self.relay.source.is_table() {
                    let found = current.events.len();
                    idle.found(store, OUTBOX_QUEUE, found).await;
                    if found >= batch as usize {
                        idle.rouse(store, OUTBOX_QUEUE).await;
                    }
                }
            }
            // Settling an event may make the next one of its ordering key claimable.
            if current.is_some() || settle.is_some() {
                continue;
            }
            let pause = if self.relay.source.is_table() {
                // Inserts into the table do not notify.
                let since = *idle_since.get_or_insert(looked);
                Some(growing_pause(since.elapsed(), self.relay.poll))
            } else {
                idle.pause(store, OUTBOX_QUEUE, looked, self.relay.poll)
                    .await
            };
            let Some(pause) = pause else {
                continue;
            };
            let until = Instant::now() + pause;
            let stays = match (self.relay.mode, worked) {
                _ if self.relay.source.is_table() => pause,
                (Mode::Parallel | Mode::Ordered, _) => pause,
                (Mode::Single, _) if pause < Rest::LEAST => pause,
                (Mode::Single, None) => Duration::ZERO,
                (Mode::Single, Some(worked)) => Rest::AFTER.saturating_sub(worked.elapsed()),
            };
            let mut woken = woken;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = &mut woken => {}
                () = tokio::time::sleep(stays.min(pause)) => {
                    if stays < pause {
                        return Some(Rest {
                            _watch: watch,
                            woken,
                            until,
                        });
                    }
                }
            }
        }
    }

    /// Settles published events, and gives back the others.
    async fn finish(
        &self,
        settle: Option<OutboxSettle>,
        unpublished: Option<Batch>,
        stop: &CancellationToken,
    ) {
        let back = unpublished.map(|batch| batch.unpublished(self.relay));
        for settle in settle.into_iter().chain(back) {
            self.settle(&settle, stop).await;
        }
    }

    /// Claims the next events, if there are any.
    async fn claim(&self, limit: u32, stop: &CancellationToken) -> Option<Batch> {
        let ask = OutboxClaim {
            relay: self.relay.name.clone(),
            limit,
            lease: self.relay.lease,
            order: self.relay.mode.order(),
            token: Uuid::now_v7(),
        };
        let began = Instant::now();
        let mut attempts = RETRY.attempts();
        while !stop.is_cancelled() {
            let store = self.relay.outbox.turno().store();
            match self.relay.source.claim(&**store, &ask).await {
                Ok(events) => {
                    let batch = Batch {
                        token: ask.token,
                        events,
                    };
                    let first = batch::first(&batch)?;
                    // With a margin, so that no event is published that another relay may have claimed.
                    let good_until = began + self.relay.lease - self.relay.lease / 10;
                    let held = Held { first, good_until };
                    self.held().insert(ask.token, held);
                    return Some(batch);
                }
                Err(error) => {
                    tracing::warn!(%error, "the outbox is unavailable; retrying");
                    tokio::select! {
                        () = attempts.pause() => {}
                        () = stop.cancelled() => {}
                    }
                }
            }
        }
        None
    }

    /// Stores the results of a batch, with retries.
    async fn settle(&self, ask: &OutboxSettle, stop: &CancellationToken) {
        let mut attempts = RETRY.attempts();
        let mut deadline = None;
        loop {
            let store = self.relay.outbox.turno().store();
            match self.relay.source.settle(&**store, ask).await {
                Ok(settled) => {
                    self.held().remove(&ask.token);
                    Counts::add(&self.counts.sent, settled.sent);
                    Counts::add(&self.counts.refused, settled.refused);
                    Counts::add(&self.counts.returned, settled.returned);
                    Counts::add(&self.counts.stale, settled.stale);
                    let dead = ask
                        .refused
                        .iter()
                        .filter(|refusal| matches!(refusal.next, AfterRefusal::Dead(_)));
                    Counts::add(&self.counts.dead, dead.count() as u64);
                    if settled.stale > 0 {
                        tracing::warn!(
                            many = settled.stale,
                            "published too late: another relay has these events, and they may arrive twice"
                        );
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "the results of a batch are not stored yet; retrying");
                    if stop.is_cancelled() {
                        let deadline =
                            *deadline.get_or_insert(Instant::now() + LAST_SETTLE_TIMEOUT);
                        if Instant::now() > deadline {
                            tracing::error!(
                                "the results of the last batch are not stored: its events will be published again, marked as duplicates"
                            );
                            return;
                        }
                    }
                    attempts.pause().await;
                }
            }
        }
    }

    /// Extends the claims that are held. Does not end.
    async fn heartbeat(&self) -> Infallible {
        let lease = self.relay.lease;
        loop {
            tokio::time::sleep(lease / 3).await;
            let began = Instant::now();
            let claims: Vec<ClaimId> = self
                .held()
                .iter()
                .map(|(token, held)| ClaimId {
                    item: held.first,
                    token: *token,
                })
                .collect();
            if claims.is_empty() {
                continue;
            }
            let store = self.relay.outbox.turno().store();
            let extended = self.relay.source.extend(&**store, claims.clone(), lease);
            match tokio::time::timeout(lease / 3, extended).await {
                Ok(Ok(stale)) => {
                    let mut held = self.held();
                    for claim in &claims {
                        if stale.contains(claim) {
                            held.remove(&claim.token);
                        } else if let Some(held) = held.get_mut(&claim.token) {
                            held.good_until = began + lease - lease / 10;
                        }
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "claims could not be extended; trying again")
                }
                Err(_) => tracing::warn!("claims could not be extended in time; trying again"),
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<Uuid, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
