//! Items in flight in one worker: waiting for a handler, in a handler, or ended and not yet settled.

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
    /// One permit per waiting item; closed when no more items are started.
    waiting: Semaphore,
    /// Notified when there is something to settle, or room for more items.
    pub(super) settle: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Entry>,
    /// Items that wait for a handler or are in one, by claim.
    held: HashMap<ClaimId, Arc<JobState>>,
    /// End of the lease of each token, by this process's clock.
    good_until: HashMap<Uuid, Instant>,
    done: Vec<ClaimId>,
    failed: Vec<Failure>,
}

/// An item and the state of its job.
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
        // No panic leaves this state inconsistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds claimed items, whose lease ends at `good_until` unless it is extended.
    pub(super) fn add(&self, items: Vec<ClaimedItem>, good_until: Instant) {
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

    /// Returns the next item to start; `None` after [`InFlight::close`].
    pub(super) async fn next(&self) -> Option<Entry> {
        loop {
            self.waiting.acquire().await.ok()?.forget();
            // An item whose claim was lost leaves its permit, so there may be none.
            if let Some(entry) = self.inner().waiting.pop_front() {
                return Some(entry);
            }
        }
    }

    /// Starts no more items. Returns those that were not started.
    pub(super) fn close(&self) -> Vec<ClaimId> {
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

    /// Returns the number of items that wait or are in a handler.
    pub(super) fn count(&self) -> usize {
        self.inner().held.len()
    }

    /// Records that the handler of an item has succeeded.
    pub(super) fn done(&self, claim: ClaimId) {
        let mut inner = self.inner();
        inner.held.remove(&claim);
        inner.done.push(claim);
        drop(inner);
        self.settle.notify_one();
    }

    /// Records that the handler of an item has failed.
    pub(super) fn failed(&self, failure: Failure) {
        let mut inner = self.inner();
        inner.held.remove(&failure.claim);
        inner.failed.push(failure);
        drop(inner);
        self.settle.notify_one();
    }

    /// Removes an item that needs no settling, because its handler has completed it.
    pub(super) fn forget(&self, claim: ClaimId) {
        self.inner().held.remove(&claim);
        self.settle.notify_one();
    }

    /// Takes items to settle, at most `most` of each kind.
    pub(super) fn take_settled(&self, most: usize) -> (Vec<ClaimId>, Vec<Failure>) {
        let mut inner = self.inner();
        let done = inner.done.len().min(most);
        let failed = inner.failed.len().min(most);
        (
            inner.done.drain(..done).collect(),
            inner.failed.drain(..failed).collect(),
        )
    }

    /// Returns the claims that a heartbeat must extend.
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

    /// Records that claims were extended.
    pub(super) fn extended(&self, claims: &[ClaimId], good_until: Instant) {
        let mut inner = self.inner();
        for claim in claims {
            if let Some(until) = inner.good_until.get_mut(&claim.token) {
                *until = good_until.max(*until);
            }
        }
    }

    /// Removes lost claims and cancels their handlers. Returns how many were still held.
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
            // There is room for more items.
            self.settle.notify_one();
        }
        many
    }

    /// Returns when the lease of the first claim ends, by this process's clock; without claims, now.
    pub(super) fn first_end(&self) -> Instant {
        let inner = self.inner();
        let first = inner.good_until.values().min();
        first.copied().unwrap_or_else(Instant::now)
    }

    /// Returns the claims whose lease has ended at `now`, by this process's clock.
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

    /// An outage that is longer than the lease loses all claims; the handlers continue with items that are claimed after it.
    #[tokio::test]
    async fn a_handler_outlives_items_that_are_lost() {
        let in_flight = InFlight::new();
        let (lost, next) = (item(1), item(2));
        let claims = [lost.claim];
        in_flight.add(vec![lost], Instant::now());
        assert_eq!(in_flight.lost(&claims), 1);
        // The fetcher is notified that there is room.
        in_flight.settle.notified().await;
        in_flight.add(vec![next], Instant::now());
        let entry = in_flight.next().await.unwrap();
        assert_eq!(entry.item.claim.item, ItemId(2));
        in_flight.close();
        assert!(in_flight.next().await.is_none());
    }
}
