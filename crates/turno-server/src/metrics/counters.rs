//! Counters of locks, inbox, outbox and once on this server, by outcome.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use turno::store::{Grant, PushedItem, Swept};

/// Outcomes of lock requests.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Acquired.
    pub(crate) acquired: Counter,
    /// Acquired once more by the owner.
    pub(crate) reentered: Counter,
    /// Held by another owner until the end of the wait.
    pub(crate) busy: Counter,
    /// Renewed.
    pub(crate) renewed: Counter,
    /// One hold released.
    pub(crate) released: Counter,
    /// The lease had ended before a renewal or a release.
    pub(crate) lost: Counter,
    /// Broken by an operator.
    pub(crate) broken: Counter,
}

impl Locks {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "Requests for locks through this server, by outcome";
        let all = Counters::new(registry, "lock_outcomes", help, "outcome");
        Locks {
            acquired: all.of("acquired"),
            reentered: all.of("reentered"),
            busy: all.of("busy"),
            renewed: all.of("renewed"),
            released: all.of("released"),
            lost: all.of("lost"),
            broken: all.of("broken"),
        }
    }
}

impl Locks {
    /// Counts a set of locks that were acquired together.
    pub(crate) fn count_grants<'a>(&self, grants: impl Iterator<Item = &'a Grant>) {
        for grant in grants {
            let counter = if grant.reentered {
                &self.reentered
            } else {
                &self.acquired
            };
            counter.inc();
        }
    }
}

/// Outcomes of items.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Stored.
    pushed: Counter,
    /// Not stored again, because its unique key exists.
    duplicate: Counter,
    /// Claimed by a worker.
    pub(crate) claimed: Counter,
    /// Completed.
    pub(crate) completed: Counter,
    /// An attempt failed.
    pub(crate) failed: Counter,
    /// The claim was extended.
    pub(crate) extended: Counter,
    /// Given back before processing began.
    pub(crate) given_back: Counter,
    /// Settled after the claim had ended. Nothing was applied.
    pub(crate) stale: Counter,
    /// Requeued by an operator.
    pub(crate) requeued: Counter,
    /// Failed, and deleted by an operator.
    pub(crate) discarded: Counter,
    /// Taken away from a worker by an operator.
    pub(crate) reset: Counter,
}

impl Inbox {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "Items pushed, claimed and settled through this server, by outcome";
        let all = Counters::new(registry, "inbox_outcomes", help, "outcome");
        Inbox {
            pushed: all.of("pushed"),
            duplicate: all.of("duplicate"),
            claimed: all.of("claimed"),
            completed: all.of("completed"),
            failed: all.of("failed"),
            extended: all.of("extended"),
            given_back: all.of("given_back"),
            stale: all.of("stale"),
            requeued: all.of("requeued"),
            discarded: all.of("discarded"),
            reset: all.of("reset"),
        }
    }
}

impl Inbox {
    /// Counts pushed items.
    pub(crate) fn pushed(&self, items: &[PushedItem]) {
        let duplicates = items.iter().filter(|item| item.duplicate).count();
        self.pushed.inc_by((items.len() - duplicates) as u64);
        self.duplicate.inc_by(duplicates as u64);
    }
}

/// Outcomes of events.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Stored.
    pub(crate) emitted: Counter,
    /// Requeued by an operator.
    pub(crate) requeued: Counter,
    /// Discarded by an operator.
    pub(crate) discarded: Counter,
}

impl Outbox {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "Events emitted, requeued and discarded through this server";
        let all = Counters::new(registry, "outbox_outcomes", help, "outcome");
        Outbox {
            emitted: all.of("emitted"),
            requeued: all.of("requeued"),
            discarded: all.of("discarded"),
        }
    }
}

/// Outcomes of once requests.
#[derive(Debug)]
pub(crate) struct Once {
    /// Begun: the caller does the work.
    pub(crate) fresh: Counter,
    /// Answered from the store.
    pub(crate) replay: Counter,
    /// Another run is in flight.
    pub(crate) in_flight: Counter,
    /// The key belongs to a request with another fingerprint.
    pub(crate) mismatch: Counter,
    /// The lease of an earlier run expired without an answer.
    pub(crate) unknown: Counter,
    /// The scope has reached its quota of keys.
    pub(crate) over_quota: Counter,
    /// Ended with an answer, or without one.
    pub(crate) completed: Counter,
    /// Released.
    pub(crate) released: Counter,
    /// The claim of a run that was to be ended or extended was no longer valid.
    pub(crate) stale: Counter,
}

impl Once {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "Once keys begun and ended through this server, by outcome";
        let all = Counters::new(registry, "once_outcomes", help, "outcome");
        Once {
            fresh: all.of("fresh"),
            replay: all.of("replay"),
            in_flight: all.of("in_flight"),
            mismatch: all.of("mismatch"),
            unknown: all.of("unknown"),
            over_quota: all.of("over_quota"),
            completed: all.of("completed"),
            released: all.of("released"),
            stale: all.of("stale"),
        }
    }
}

/// What sweeps have deleted.
#[derive(Debug)]
pub(crate) struct Sweeper {
    sweeps: Counter,
    expired: Counter,
    purged: Counter,
    waiters: Counter,
    history: Counter,
    completed: Counter,
    archived: Counter,
    seen: Counter,
    once: Counter,
    failed: Counter,
}

impl Sweeper {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let sweeps = Counter::default();
        let help = "Sweeps of this server, its own and requested ones";
        registry.register("sweeps", help, sweeps.clone());
        let help = "Rows that these sweeps closed or deleted, by kind";
        let all = Counters::new(registry, "swept", help, "kind");
        Sweeper {
            sweeps,
            expired: all.of("expired"),
            purged: all.of("purged"),
            waiters: all.of("waiters"),
            history: all.of("history"),
            completed: all.of("completed"),
            archived: all.of("archived"),
            seen: all.of("seen"),
            once: all.of("once"),
            failed: all.of("failed"),
        }
    }

    /// Counts a sweep.
    pub(crate) fn swept(&self, swept: &Swept) {
        self.sweeps.inc();
        self.expired.inc_by(swept.expired);
        self.purged.inc_by(swept.purged);
        self.waiters.inc_by(swept.waiters);
        self.history.inc_by(swept.history);
        self.completed.inc_by(swept.completed);
        self.archived.inc_by(swept.archived);
        self.seen.inc_by(swept.seen);
        self.once.inc_by(swept.once);
        self.failed.inc_by(swept.failed);
    }
}

/// Counters that differ in one label.
struct Counters {
    label: &'static str,
    family: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Counters {
    fn new(
        registry: &mut Registry,
        name: &'static str,
        help: &'static str,
        label: &'static str,
    ) -> Self {
        let family = Family::default();
        registry.register(name, help, family.clone());
        Counters { label, family }
    }

    /// Returns the counter of one label value. It is exported as 0 before the first event, so that a zero can be seen.
    fn of(&self, word: &'static str) -> Counter {
        self.family.get_or_create_owned(&[(self.label, word)])
    }
}
