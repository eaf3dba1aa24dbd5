//! Which queue a claim is of. The library's claims do not say, and a server's paths do.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use turno::inbox::ClaimId;
use uuid::Uuid;

/// How many claims are remembered: far more than a process has in hand.
const MANY: usize = 10_000;
/// Said of a claim that is not remembered.
const ELSEWHERE: &str = "-";

/// The claims that were made here, and of which queues.
#[derive(Debug)]
pub(super) struct Queues {
    known: Mutex<Known>,
    other: String,
}

#[derive(Debug, Default)]
struct Known {
    queues: HashMap<Uuid, String>,
    /// The oldest first.
    order: VecDeque<Uuid>,
}

impl Default for Queues {
    fn default() -> Self {
        Queues::new(ELSEWHERE.to_owned())
    }
}

impl Queues {
    /// Claims that were not made here are of this queue.
    pub(super) fn new(other: String) -> Self {
        Queues {
            known: Mutex::default(),
            other,
        }
    }

    /// Items of a queue are in our hands.
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

    /// The queue of a claim, if it was made here.
    pub(super) fn of(&self, claim: &ClaimId) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.queues.get(&claim.token).cloned()
    }

    /// Said of the others.
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
