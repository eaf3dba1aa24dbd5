//! What the primitives did through this server, by outcome.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use turno::store::Swept;

use super::Counters;

/// What became of requests for locks.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Taken.
    pub(super) acquired: Counter,
    /// Entered once more by the owner.
    pub(super) reentered: Counter,
    /// Somebody else had it, until the end of the wait.
    pub(super) busy: Counter,
    /// Lengthened.
    pub(super) renewed: Counter,
    /// A hold was given back.
    pub(super) released: Counter,
    /// A renewal or a release came too late.
    pub(super) lost: Counter,
    /// Forced open by a person.
    pub(super) broken: Counter,
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

/// What became of items.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Stored.
    pub(super) pushed: Counter,
    /// Known already, and not stored again.
    pub(super) duplicate: Counter,
    /// Handed to a worker.
    pub(super) claimed: Counter,
    /// Done.
    pub(super) completed: Counter,
    /// An attempt failed.
    pub(super) failed: Counter,
    /// Kept for longer.
    pub(super) extended: Counter,
    /// Given back unbegun.
    pub(super) given_back: Counter,
    /// Settled too late: nothing was applied.
    pub(super) stale: Counter,
    /// Revived by a person.
    pub(super) requeued: Counter,
    /// Taken away from workers by a person.
    pub(super) reset: Counter,
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
            reset: all.of("reset"),
        }
    }
}

/// What became of events.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Stored.
    pub(super) emitted: Counter,
    /// Revived by a person.
    pub(super) requeued: Counter,
    /// Given up by a person.
    pub(super) discarded: Counter,
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
    pub(super) fresh: Counter,
    /// Answered from the store.
    pub(super) replay: Counter,
    /// Somebody does the work.
    pub(super) in_flight: Counter,
    /// The key is another request's.
    pub(super) mismatch: Counter,
    /// An earlier run has vanished.
    pub(super) unknown: Counter,
    /// The scope has too many keys.
    pub(super) over_quota: Counter,
    /// Ended with an answer.
    pub(super) completed: Counter,
    /// Given back.
    pub(super) released: Counter,
    /// A run that does not count any more wanted to end or go on.
    pub(super) stale: Counter,
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
}

impl Sweeper {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let sweeps = Counter::default();
        let help = "Sweeps that were asked for through this server";
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
    }
}
