//! Cache of the queue of each claim: the library's claims do not contain their queue, but the server's paths do.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use turno::inbox::ClaimId;
use uuid::Uuid;

/// Maximum number of cached claims: far more than a process has in flight.
const MANY: usize = 10_000;
/// Queue in the path for a claim that is not in the cache.
const ELSEWHERE: &str = "-";

/// Queues of the claims that were made through this store.
#[derive(Debug)]
pub(super) struct Queues {
    known: Mutex<Known>,
    other: String,
}

#[derive(Debug, Default)]
struct Known {
    queues: HashMap<Uuid, String>,
    /// Tokens in order of insertion, for eviction of the oldest.
    order: VecDeque<Uuid>,
}

impl Default for Queues {
    fn default() -> Self {
        Queues::new(ELSEWHERE.to_owned())
    }
}

impl Queues {
    /// Creates an empty cache. `other` is the queue for claims that are not in it.
    pub(super) fn new(other: String) -> Self {
        Queues {
            known: Mutex::default(),
            other,
        }
    }

    /// Stores the queue of new claims.
    pub(super) fn claimed<'a>(&self, queue: &str, claims: impl Iterator<Item = &'a ClaimId>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for claim in claims {
            if known.queues.contains_key(&claim.token) {
                continue;
            }
            known.queues.insert(claim.token, queue.to_owned());
            known.order.push_back(claim.token);
            if known.order.len() > MANY
                && let Some(oldest) = known.order.pop_front()
            {
                known.queues.remove(&oldest);
            }
        }
    }

    /// Returns the queue of a claim, if it was made through this store.
    pub(super) fn of(&self, claim: &ClaimId) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.queues.get(&claim.token).cloned()
    }

    /// Returns the queue for claims that are not in the cache.
    pub(super) fn other(&self) -> &str {
        &self.other
    }
}

#[cfg(test)]
mod tests {
    use turno::inbox::ItemId;

    use super::*;

    fn claim(token: u128) -> ClaimId {
        ClaimId {
            item: ItemId(1),
            token: Uuid::from_u128(token),
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let queues = Queues::new("other".into());
        for token in 0..=MANY as u128 {
            queues.claimed("mail", [&claim(token), &claim(token)].into_iter());
        }
        assert_eq!(queues.of(&claim(0)), None);
        assert_eq!(queues.of(&claim(1)).as_deref(), Some("mail"));
        assert_eq!(queues.known.lock().unwrap().order.len(), MANY);
    }
}
