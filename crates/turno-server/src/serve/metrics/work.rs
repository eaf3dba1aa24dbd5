//! What the primitives did through this server, by outcome.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use turno::store::{Grant, PushedItem, Swept};

use super::Counters;

/// What became of requests for locks.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Taken.
    pub(crate) acquired: Counter,
    /// Entered once more by the owner.
    pub(crate) reentered: Counter,
    /// Somebody else had it, until the end of the wait.
    pub(crate) busy: Counter,
    /// Lengthened.
    pub(crate) renewed: Counter,
    /// A hold was given back.
    pub(crate) released: Counter,
    /// A renewal or a release came too late.
    pub(crate) lost: Counter,
    /// Forced open by a person.
    pub(crate) broken: Counter,
}

impl Locks {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help =
            "Locks asked for, renewed and given back through this server, by what came of it";
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
    /// Several were taken together.
    pub(crate) fn taken<'a>(&self, grants: impl Iterator<Item = &'a Grant>) {
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

/// What became of items.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Stored.
    pushed: Counter,
    /// Known already, and not stored again.
    duplicate: Counter,
    /// Handed to a worker.
    pub(crate) claimed: Counter,
    /// Done.
    pub(crate) completed: Counter,
    /// An attempt failed.
    pub(crate) failed: Counter,
    /// Kept for longer.
    pub(crate) extended: Counter,
    /// Given back unbegun.
    pub(crate) given_back: Counter,
    /// Settled too late: nothing was applied.
    pub(crate) stale: Counter,
    /// Revived by a person.
    pub(crate) requeued: Counter,
    /// Failed, and deleted by a person.
    pub(crate) discarded: Counter,
    /// Taken away from workers by a person.
    pub(crate) reset: Counter,
}

impl Inbox {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help = "Items pushed, claimed and settled through this server, by what became of them";
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
    /// Items were pushed.
    pub(crate) fn pushed(&self, items: &[PushedItem]) {
        let duplicates = items.iter().filter(|item| item.duplicate).count();
        self.pushed.inc_by((items.len() - duplicates) as u64);
        self.duplicate.inc_by(duplicates as u64);
    }
}

/// What became of events.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Stored.
    pub(crate) emitted: Counter,
    /// Revived by a person.
    pub(crate) requeued: Counter,
    /// Given up by a person.
    pub(crate) discarded: Counter,
}

impl Outbox {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help = "Events emitted, requeued and discarded through this server";
        let all = Counters::new(registry, "outbox_outcomes", help, "outcome");
        Outbox {
            emitted: all.of("emitted"),
            requeued: all.of("requeued"),
            discarded: all.of("discarded"),
        }
    }
}

/// What became of requests that are answered once.
#[derive(Debug)]
pub(crate) struct Once {
    /// Begun: the work is the caller's.
    pub(crate) fresh: Counter,
    /// Answered from the store.
    pub(crate) replay: Counter,
    /// Somebody does the work.
    pub(crate) in_flight: Counter,
    /// The key is another request's.
    pub(crate) mismatch: Counter,
    /// An earlier run has vanished.
    pub(crate) unknown: Counter,
    /// The scope has too many keys.
    pub(crate) over_quota: Counter,
    /// Ended with an answer.
    pub(crate) completed: Counter,
    /// Given back.
    pub(crate) released: Counter,
    /// A run that does not count any more wanted to end or go on.
    pub(crate) stale: Counter,
}

impl Once {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help = "Once keys begun and ended through this server, by what came of it";
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

/// What was tidied up.
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
    pub(super) fn new(registry: &mut Registry) -> Self {
        let sweeps = Counter::default();
        let help = "Sweeps of this server, its own and those that were asked for";
        registry.register("sweeps", help, sweeps.clone());
        let help = "What these sweeps closed or forgot, by kind";
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

    /// A sweep has ended.
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
