//! The rules of a lock, as plainly as they can be said.

use super::Mode;

/// A mistake that a model can be made with, to show that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    None,
    /// A release gives back whoever's hold it is.
    ReleaseIgnoresTheToken,
    /// A renewal brings back what has ended.
    RenewalRevives,
    /// An expired holder keeps others out.
    ExpiredIsBusy,
    /// Entering again does not count.
    HoldsAreNotCounted,
    /// One more than the permits may enter.
    OnePermitTooMany,
    /// A sharer who enters again ends the holds of others whose time is up.
    ReentryEndsTheExpired,
}

/// Where a lease is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Held.
    Live,
    /// Its time is up, and nobody has ended it yet.
    Expired,
    /// Over, for ever.
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

/// All leases ever granted; a lease's place in the list stands for its token.
#[derive(Debug, Clone)]
pub struct Model {
    flaw: Flaw,
    leases: Vec<Lease>,
}

impl Model {
    /// Nothing has been granted.
    pub fn new(flaw: Flaw) -> Self {
        Model {
            flaw,
            leases: Vec::new(),
        }
    }

    /// How many leases were granted.
    pub fn granted(&self) -> usize {
        self.leases.len()
    }

    /// The lease and its holds, or `None` for busy.
    pub fn acquire(&mut self, resource: usize, owner: usize, mode: Mode) -> Option<(usize, u32)> {
        let live: Vec<usize> = self.of(resource, Life::Live);
        let mine = live
            .iter()
            .copied()
            .find(|lease| self.leases[*lease].owner == owner);
        let alone = live.iter().any(|lease| self.leases[*lease].exclusive);
        let entered = match mode {
            // A sharer who wants it alone has to let go first.
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

    /// Whether the lease could be lengthened.
    pub fn renew(&mut self, lease: Option<usize>) -> bool {
        let Some(lease) = lease else { return false };
        if self.leases[lease].life == Life::Ended && self.flaw != Flaw::RenewalRevives {
            return false;
        }
        self.leases[lease].life = Life::Live;
        true
    }

    /// How many holds are left, or `None` for lost. `resource` is the one that the token was presented for.
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

    /// Whether there was something to break.
    pub fn force(&mut self, lease: Option<usize>) -> bool {
        match lease.map(|lease| &mut self.leases[lease]) {
            Some(lease) if lease.life != Life::Ended => {
                lease.life = Life::Ended;
                true
            }
            _ => false,
        }
    }

    /// Time passes for a resource.
    pub fn expire(&mut self, resource: usize) {
        for lease in self.of(resource, Life::Live) {
            self.leases[lease].life = Life::Expired;
        }
    }

    /// Time passes for one lease; whether it was held.
    pub fn expire_one(&mut self, lease: usize) -> bool {
        let held = self.leases[lease].life == Life::Live;
        if held {
            self.leases[lease].life = Life::Expired;
        }
        held
    }

    /// Whether a lease is an exclusive one.
    pub fn is_exclusive(&self, lease: usize) -> bool {
        self.leases[lease].exclusive
    }

    /// How many leases a sweep closes: those of resources where nobody is left.
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

    /// Who holds a resource, in the order of their tokens, and how often.
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
