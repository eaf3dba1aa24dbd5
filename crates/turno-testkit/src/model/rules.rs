//! The rules of a lock, in their simplest form.

use super::Mode;

/// A deliberate defect of the model, to show that the tests detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    None,
    /// A release ends any lease, also with a wrong token.
    ReleaseIgnoresTheToken,
    /// A renewal revives an ended lease.
    RenewalRevives,
    /// An expired lease blocks other owners.
    ExpiredIsBusy,
    /// Reentrant acquires are not counted.
    HoldsAreNotCounted,
    /// One more owner than there are permits is admitted.
    OnePermitTooMany,
    /// A reentrant shared acquire ends expired leases of other owners.
    ReentryEndsTheExpired,
}

/// State of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Held.
    Live,
    /// Expired, and not yet ended.
    Expired,
    /// Ended, permanently.
    Ended,
}

#[derive(Debug, Clone)]
struct Lease {
    resource: usize,
    owner: usize,
    exclusive: bool,
    holds: u32,
    life: Life,
}

/// All leases ever granted. The index of a lease represents its token.
#[derive(Debug, Clone)]
pub struct Model {
    flaw: Flaw,
    leases: Vec<Lease>,
}

impl Model {
    /// Creates a model without leases.
    pub fn new(flaw: Flaw) -> Self {
        Model {
            flaw,
            leases: Vec::new(),
        }
    }

    /// Number of granted leases.
    pub fn granted(&self) -> usize {
        self.leases.len()
    }

    /// Returns the lease and its number of holds, or `None` if the lock is busy.
    pub fn acquire(&mut self, resource: usize, owner: usize, mode: Mode) -> Option<(usize, u32)> {
        let live: Vec<usize> = self.of(resource, Life::Live);
        let mine = live
            .iter()
            .copied()
            .find(|lease| self.leases[*lease].owner == owner);
        let alone = live.iter().any(|lease| self.leases[*lease].exclusive);
        let entered = match mode {
            // A shared holder that wants exclusive access has to release first.
            Mode::Exclusive => mine.filter(|_| alone),
            Mode::Shared | Mode::Two => mine,
        };
        if let Some(lease) = entered {
            if self.flaw != Flaw::HoldsAreNotCounted {
                self.leases[lease].holds += 1;
            }
            if self.flaw == Flaw::ReentryEndsTheExpired {
                self.end(self.of(resource, Life::Expired));
            }
            return Some((lease, self.leases[lease].holds));
        }
        let most = match mode {
            Mode::Exclusive => 1,
            Mode::Shared => usize::MAX,
            Mode::Two if self.flaw == Flaw::OnePermitTooMany => 3,
            Mode::Two => 2,
        };
        let expired = self.of(resource, Life::Expired);
        let in_the_way = self.flaw == Flaw::ExpiredIsBusy && !expired.is_empty();
        if alone || live.len() >= most || in_the_way {
            return None;
        }
        self.end(expired);
        self.leases.push(Lease {
            resource,
            owner,
            exclusive: mode == Mode::Exclusive,
            holds: 1,
            life: Life::Live,
        });
        Some((self.leases.len() - 1, 1))
    }

    /// Returns whether the lease could be renewed.
    pub fn renew(&mut self, lease: Option<usize>) -> bool {
        let Some(lease) = lease else { return false };
        if self.leases[lease].life == Life::Ended && self.flaw != Flaw::RenewalRevives {
            return false;
        }
        self.leases[lease].life = Life::Live;
        true
    }

    /// Returns the number of remaining holds, or `None` if the lease was lost. `resource` is the one passed with the token.
    pub fn release(&mut self, lease: Option<usize>, resource: usize) -> Option<u32> {
        let named = lease.filter(|lease| self.leases[*lease].life != Life::Ended);
        let lease = match self.flaw {
            Flaw::ReleaseIgnoresTheToken => {
                named.or_else(|| self.of(resource, Life::Live).first().copied())
            }
            _ => named,
        }?;
        let lease = &mut self.leases[lease];
        lease.holds -= 1;
        if lease.holds == 0 {
            lease.life = Life::Ended;
        }
        Some(lease.holds)
    }

    /// Returns whether there was a lease to break.
    pub fn force(&mut self, lease: Option<usize>) -> bool {
        match lease.map(|lease| &mut self.leases[lease]) {
            Some(lease) if lease.life != Life::Ended => {
                lease.life = Life::Ended;
                true
            }
            _ => false,
        }
    }

    /// Lets all leases of a resource expire.
    pub fn expire(&mut self, resource: usize) {
        for lease in self.of(resource, Life::Live) {
            self.leases[lease].life = Life::Expired;
        }
    }

    /// Lets one lease expire. Returns whether it was held.
    pub fn expire_one(&mut self, lease: usize) -> bool {
        let held = self.leases[lease].life == Life::Live;
        if held {
            self.leases[lease].life = Life::Expired;
        }
        held
    }

    /// Returns whether a lease is exclusive.
    pub fn is_exclusive(&self, lease: usize) -> bool {
        self.leases[lease].exclusive
    }

    /// Returns the number of leases that a sweep closes: those of resources without a live lease.
    pub fn sweep(&mut self) -> u64 {
        let mut closed = 0;
        for lease in 0..self.leases.len() {
            let Lease { resource, life, .. } = self.leases[lease];
            if life == Life::Expired && self.of(resource, Life::Live).is_empty() {
                self.leases[lease].life = Life::Ended;
                closed += 1;
            }
        }
        closed
    }

    /// Returns the holders of a resource, ordered by token, with their number of holds.
    pub fn holders(&self, resource: usize) -> Vec<(usize, u32)> {
        self.of(resource, Life::Live)
            .into_iter()
            .map(|lease| (self.leases[lease].owner, self.leases[lease].holds))
            .collect()
    }

    fn end(&mut self, leases: Vec<usize>) {
        for lease in leases {
            self.leases[lease].life = Life::Ended;
        }
    }

    fn of(&self, resource: usize, life: Life) -> Vec<usize> {
        (0..self.leases.len())
            .filter(|lease| {
                self.leases[*lease].resource == resource && self.leases[*lease].life == life
            })
            .collect()
    }
}
