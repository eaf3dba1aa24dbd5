//! What one worker holds: items that wait for a handler, those with one, and what came of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use super::job::Fate;
use crate::store::{ClaimId, ClaimedItem, Failure};

/// The shared state of a worker's tasks.
#[derive(Debug)]
pub(super) struct Hand {
    cards: Mutex<Cards>,
    /// One permit for each item that waits; closed when nothing more is to be begun.
    waiting: Semaphore,
    /// Told whenever there is something to settle.
    pub(super) settle: Notify,
}

#[derive(Debug, Default)]
struct Cards {
    waiting: VecDeque<Card>,
    /// All that is held and not yet settled, by claim.
    held: HashMap<ClaimId, Arc<Fate>>,
    /// Until when the claims with a token can be relied on, by this process's clock.
    good_until: HashMap<Uuid, Instant>,
    done: Vec<ClaimId>,
    failed: Vec<Failure>,
}

/// An item, and its fate.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) item: ClaimedItem,
    pub(super) fate: Arc<Fate>,
}

impl Hand {
    pub(super) fn new() -> Self {
        Hand {
            cards: Mutex::default(),
            waiting: Semaphore::new(0),
            settle: Notify::new(),
        }
    }

    fn cards(&self) -> MutexGuard<'_, Cards> {
        // Nothing here is left half-done by a panic.
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was claimed; good until then, unless extended.
    pub(super) fn deal(&self, items: Vec<ClaimedItem>, good_until: Instant) {
        let many = items.len();
        let mut cards = self.cards();
        for item in items {
            let fate = Arc::new(Fate::default());
            cards.good_until.insert(item.claim.token, good_until);
            cards.held.insert(item.claim, fate.clone());
            cards.waiting.push_back(Card { item, fate });
        }
        drop(cards);
        self.waiting.add_permits(many);
    }

    /// The next item to begin; `None` when nothing more is to be begun.
    pub(super) async fn next(&self) -> Option<Card> {
        loop {
            self.waiting.acquire().await.ok()?.forget();
            // An item whose claim was lost leaves its permit behind.
            if let Some(card) = self.cards().waiting.pop_front() {
                return Some(card);
            }
        }
    }

    /// Nothing more is begun. Answers what was not.
    pub(super) fn fold(&self) -> Vec<ClaimId> {
        self.waiting.close();
        let mut cards = self.cards();
        let unbegun: Vec<ClaimId> = cards
            .waiting
            .drain(..)
            .map(|card| card.item.claim)
            .collect();
        for claim in &unbegun {
            cards.held.remove(claim);
        }
        unbegun
    }

    /// How many items are held: waiting, or with a handler.
    pub(super) fn count(&self) -> usize {
        self.cards().held.len()
    }

    /// A handler is done with an item.
    pub(super) fn done(&self, claim: ClaimId) {
        let mut cards = self.cards();
        cards.held.remove(&claim);
        cards.done.push(claim);
        drop(cards);
        self.settle.notify_one();
    }

    /// A handler has failed.
    pub(super) fn failed(&self, failure: Failure) {
        let mut cards = self.cards();
        cards.held.remove(&failure.claim);
        cards.failed.push(failure);
        drop(cards);
        self.settle.notify_one();
    }

    /// An item needs no settling: its handler did that, or its claim is gone.
    pub(super) fn forget(&self, claim: ClaimId) {
        self.cards().held.remove(&claim);
        self.settle.notify_one();
    }

    /// What is to be settled, at the most so many of each.
    pub(super) fn take_settled(&self, most: usize) -> (Vec<ClaimId>, Vec<Failure>) {
        let mut cards = self.cards();
        let done = cards.done.len().min(most);
        let failed = cards.failed.len().min(most);
        (
            cards.done.drain(..done).collect(),
            cards.failed.drain(..failed).collect(),
        )
    }

    /// Everything that a heartbeat has to keep alive.
    pub(super) fn held(&self) -> Vec<ClaimId> {
        let mut cards = self.cards();
        let Cards {
            held, good_until, ..
        } = &mut *cards;
        let tokens: std::collections::HashSet<Uuid> =
            held.keys().map(|claim| claim.token).collect();
        good_until.retain(|token, _| tokens.contains(token));
        held.keys().copied().collect()
    }

    /// These were extended.
    pub(super) fn extended(&self, claims: &[ClaimId], good_until: Instant) {
        let mut cards = self.cards();
        for claim in claims {
            if let Some(until) = cards.good_until.get_mut(&claim.token) {
                *until = good_until.max(*until);
            }
        }
    }

    /// These are gone: their handlers are told and stopped. Answers how many were still held.
    pub(super) fn lost(&self, claims: &[ClaimId]) -> u64 {
        let mut cards = self.cards();
        let mut many = 0;
        for claim in claims {
            if let Some(fate) = cards.held.remove(claim) {
                fate.lost.cancel();
                many += 1;
            }
        }
        cards.waiting.retain(|card| !card.fate.lost.is_cancelled());
        drop(cards);
        if many > 0 {
            // There is room again.
            self.settle.notify_one();
        }
        many
    }

    /// Those that cannot be relied on any more, by this process's clock.
    pub(super) fn overdue(&self, now: Instant) -> Vec<ClaimId> {
        let cards = self.cards();
        cards
            .held
            .keys()
            .filter(|claim| {
                cards
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
            claim: ClaimId {
                item: ItemId(id),
                token: Uuid::now_v7(),
            },
            attempt: 1,
            max_attempts: 5,
            payload: "null".to_owned(),
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
        let hand = Hand::new();
        let (lost, next) = (item(1), item(2));
        let claims = [lost.claim];
        hand.deal(vec![lost], Instant::now());
        assert_eq!(hand.lost(&claims), 1);
        // The fetcher is woken: there is room again.
        hand.settle.notified().await;
        hand.deal(vec![next], Instant::now());
        let card = hand.next().await.unwrap();
        assert_eq!(card.item.claim.item, ItemId(2));
        hand.fold();
        assert!(hand.next().await.is_none());
    }
}
