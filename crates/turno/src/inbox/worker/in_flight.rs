//! What one worker holds: items that wait for a handler, those with one, and what came of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use super::job::JobState;
use crate::store::{ClaimId, ClaimedItem, Failure};

/// The shared state of a worker's tasks.
#[derive(Debug)]
pub(super) struct InFlight {
    inner: Mutex<Inner>,
    /// One permit for each item that waits; closed when nothing more is to be begun.
    waiting: Semaphore,
    /// Told whenever there is something to settle.
    pub(super) settle: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Entry>,
    /// All that is held and not yet settled, by claim.
    held: HashMap<ClaimId, Arc<JobState>>,
    /// Until when the claims with a token can be relied on, by this process's clock.
    good_until: HashMap<Uuid, Instant>,
    done: Vec<ClaimId>,
    failed: Vec<Failure>,
}

/// An item, and its state.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: ClaimedItem,
    pub(super) state: Arc<JobState>,
}

impl InFlight {
    pub(super) fn new() -> Self {
        InFlight {
            inner: Mutex::default(),
            waiting: Semaphore::new(0),
            settle: Notify::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing here is left half-done by a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was claimed; good until then, unless extended.
    pub(super) fn deal(&self, items: Vec<ClaimedItem>, good_until: Instant) {
        let many = items.len();
        let mut inner = self.inner();
        for item in items {
            let state = Arc::new(JobState::default());
            inner.good_until.insert(item.claim.token, good_until);
            inner.held.insert(item.claim, state.clone());
            inner.waiting.push_back(Entry { item, state });
        }
        drop(inner);
        self.waiting.add_permits(many);
    }

    /// The next item to begin; `None` when nothing more is to be begun.
    pub(super) async fn next(&self) -> Option<Entry> {
        loop {
            self.waiting.acquire().await.ok()?.forget();
            // An item whose claim was lost leaves its permit behind.
            if let Some(entry) = self.inner().waiting.pop_front() {
                return Some(entry);
            }
        }
    }

    /// Nothing more is begun. Answers what was not.
    pub(super) fn fold(&self) -> Vec<ClaimId> {
        self.waiting.close();
        let mut inner = self.inner();
        let unbegun: Vec<ClaimId> = inner
            .waiting
            .drain(..)
            .map(|entry| entry.item.claim)
            .collect();
        for claim in &unbegun {
            inner.held.remove(claim);
        }
        unbegun
    }

    /// How many items are held: waiting, or with a handler.
    pub(super) fn count(&self) -> usize {
        self.inner().held.len()
    }

    /// A handler is done with an item.
    pub(super) fn done(&self, claim: ClaimId) {
        let mut inner = self.inner();
        inner.held.remove(&claim);
        inner.done.push(claim);
        drop(inner);
        self.settle.notify_one();
    }

    /// A handler has failed.
    pub(super) fn failed(&self, failure: Failure) {
        let mut inner = self.inner();
        inner.held.remove(&failure.claim);
        inner.failed.push(failure);
        drop(inner);
        self.settle.notify_one();
    }

    /// An item needs no settling: its handler did that, or its claim is gone.
    pub(super) fn forget(&self, claim: ClaimId) {
        self.inner().held.remove(&claim);
        self.settle.notify_one();
    }

    /// What is to be settled, at the most so many of each.
    pub(super) fn take_settled(&self, most: usize) -> (Vec<ClaimId>, Vec<Failure>) {
        let mut inner = self.inner();
        let done = inner.done.len().min(most);
        let failed = inner.failed.len().min(most);
        (
            inner.done.drain(..done).collect(),
            inner.failed.drain(..failed).collect(),
        )
    }

    /// Everything that a heartbeat has to keep alive.
    pub(super) fn held(&self) -> Vec<ClaimId> {
        let mut inner = self.inner();
        let Inner {
            held, good_until, ..
        } = &mut *inner;
        let tokens: std::collections::HashSet<Uuid> =
            held.keys().map(|claim| claim.token).collect();
        good_until.retain(|token, _| tokens.contains(token));
        held.keys().copied().collect()
    }

    /// These were extended.
    pub(super) fn extended(&self, claims: &[ClaimId], good_until: Instant) {
        let mut inner = self.inner();
        for claim in claims {
            if let Some(until) = inner.good_until.get_mut(&claim.token) {
                *until = good_until.max(*until);
            }
        }
    }

    /// These are gone: their handlers are told and stopped. Answers how many were still held.
    pub(super) fn lost(&self, claims: &[ClaimId]) -> u64 {
        let mut inner = self.inner();
        let mut many = 0;
        for claim in claims {
            if let Some(state) = inner.held.remove(claim) {
                state.lost.cancel();
                many += 1;
            }
        }
        inner
            .waiting
            .retain(|entry| !entry.state.lost.is_cancelled());
        drop(inner);
        if many > 0 {
            // There is room again.
            self.settle.notify_one();
        }
        many
    }

    /// Those that cannot be relied on any more, by this process's clock.
    pub(super) fn overdue(&self, now: Instant) -> Vec<ClaimId> {
        let inner = self.inner();
        inner
            .held
            .keys()
            .filter(|claim| {
                inner
                    .good_until
                    .get(&claim.token)
                    .is_none_or(|until| *until <= now)
            })
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::store::ItemId;

    fn item(id: i64) -> ClaimedItem {
        ClaimedItem {
            id: ItemId(id),
            claim: ClaimId {
                item: ItemId(id),
                token: Uuid::now_v7(),
            },
            attempt: 1,
            max_attempts: 5,
            payload: "null".into(),
            key: None,
            group: None,
            priority: 2,
            pushed_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
            abandoned: 0,
        }
    }

    /// An outage that is longer than the lease loses all claims; the handlers go on with what is claimed after it.
    #[tokio::test]
    async fn a_handler_outlives_items_that_are_lost() {
        let in_flight = InFlight::new();
        let (lost, next) = (item(1), item(2));
        let claims = [lost.claim];
        in_flight.deal(vec![lost], Instant::now());
        assert_eq!(in_flight.lost(&claims), 1);
        // The fetcher is woken: there is room again.
        in_flight.settle.notified().await;
        in_flight.deal(vec![next], Instant::now());
        let entry = in_flight.next().await.unwrap();
        assert_eq!(entry.item.claim.item, ItemId(2));
        in_flight.fold();
        assert!(in_flight.next().await.is_none());
    }
}
