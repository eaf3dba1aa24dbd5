//! The state that was sent to the subscribers, and its difference to a new poll.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use turno::inbox::QueueStats;
use turno::lock::LockHolder;
use turno::once::OnceView;
use turno::outbox::OutboxStats;
use turno_api::stream::{
    KnownQueues, LockList, LockRemoved, LocksChanged, OnceChanged, OpenKeys, QueuesChanged,
    Snapshot,
};

use super::Write;
use super::look::Seen;

/// Ages that differ from the expected value by less than this are not sent again.
const CLOSE: Duration = Duration::from_secs(1);

/// Key of a lock in the state: resource and owner. A shared lock has several owners.
type Holding = (String, String);

/// The state that was sent.
pub(super) struct Sight {
    locks: BTreeMap<Holding, LockHolder>,
    held: u64,
    more_locks: bool,
    queues: BTreeMap<String, Aged<QueueStats>>,
    more_queues: bool,
    outbox: Option<Aged<OutboxStats>>,
    once: BTreeMap<String, OnceView>,
    more_once: bool,
}

/// Statistics with an age, and the time at which they were read.
struct Aged<T> {
    at: Instant,
    stats: T,
}

impl Sight {
    /// Creates the state from the first poll.
    pub(super) fn new(seen: Seen) -> Self {
        let locks = seen.locks.unwrap_or_default();
        let queues = seen.queues.unwrap_or_default();
        let once = seen.once.unwrap_or_default();
        Sight {
            held: locks.held,
            more_locks: locks.more,
            locks: by_holding(locks.locks),
            more_queues: queues.more,
            queues: by_name(queues.queues),
            outbox: seen.outbox.map(Aged::now),
            more_once: once.more,
            once: by_key(once.keys),
        }
    }

    /// Returns the whole state.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            locks: LockList {
                locks: self.locks.values().cloned().collect(),
                held: self.held,
                more: self.more_locks,
            },
            queues: KnownQueues {
                queues: self.queues.values().map(Aged::by_now).collect(),
                more: self.more_queues,
            },
            outbox: self.outbox.as_ref().map(Aged::by_now),
            once: OpenKeys {
                keys: self.once.values().cloned().collect(),
                more: self.more_once,
            },
        }
    }

    /// Applies a poll to the state, and writes the differences.
    pub(super) fn change(&mut self, seen: Seen, write: &mut Write<'_>) {
        if let Some(locks) = seen.locks {
            self.locks(locks, write);
        }
        if let Some(queues) = seen.queues {
            self.queues(queues, write);
        }
        if let Some(stats) = seen.outbox
            && !self.outbox.as_ref().is_some_and(|old| old.is_like(&stats))
        {
            write.event("outbox", &stats);
            self.outbox = Some(Aged::now(stats));
        }
        if let Some(once) = seen.once {
            self.once(once, write);
        }
        if !seen.history.history.is_empty() || seen.history.more {
            write.event("history", &seen.history);
        }
    }

    fn locks(&mut self, seen: LockList, write: &mut Write<'_>) {
        let now = by_holding(seen.locks);
        let mut told = LocksChanged {
            held: seen.held,
            more: seen.more,
            ..LocksChanged::default()
        };
        for (name, lock) in &now {
            match self.locks.get(name) {
                None => told.added.push(lock.clone()),
                Some(old) if !is_like(old, lock) => told.changed.push(lock.clone()),
                Some(_) => {}
            }
        }
        let gone = self
            .locks
            .iter()
            .filter(|(name, _)| !now.contains_key(*name));
        told.gone = gone.map(|(_, lock)| as_gone(lock)).collect();
        let is_news = !(told.added.is_empty() && told.changed.is_empty() && told.gone.is_empty())
            || (self.held, self.more_locks) != (seen.held, seen.more);
        if is_news {
            write.event("locks", &told);
        }
        (self.locks, self.held, self.more_locks) = (now, seen.held, seen.more);
    }

    fn queues(&mut self, seen: KnownQueues, write: &mut Write<'_>) {
        let now = by_name(seen.queues);
        let mut told = QueuesChanged {
            more: seen.more,
            ..QueuesChanged::default()
        };
        let gone = self.queues.keys().filter(|name| !now.contains_key(*name));
        told.gone = gone.cloned().collect();
        for name in &told.gone {
            self.queues.remove(name);
        }
        for (name, queue) in now {
            let is_known = |old: &Aged<QueueStats>| old.is_like(&queue.stats);
            if !self.queues.get(&name).is_some_and(is_known) {
                told.changed.push(queue.stats.clone());
                self.queues.insert(name, queue);
            }
        }
        if !told.changed.is_empty() || !told.gone.is_empty() || self.more_queues != seen.more {
            write.event("queues", &told);
        }
        self.more_queues = seen.more;
    }

    fn once(&mut self, seen: OpenKeys, write: &mut Write<'_>) {
        let now = by_key(seen.keys);
        let changed = now
            .iter()
            .filter(|(key, view)| self.once.get(*key) != Some(*view));
        let gone = self.once.keys().filter(|key| !now.contains_key(*key));
        let told = OnceChanged {
            changed: changed.map(|(_, view)| view.clone()).collect(),
            gone: gone.cloned().collect(),
            more: seen.more,
        };
        if !told.changed.is_empty() || !told.gone.is_empty() || self.more_once != seen.more {
            write.event("once", &told);
        }
        (self.once, self.more_once) = (now, seen.more);
    }
}

fn by_holding(locks: Vec<LockHolder>) -> BTreeMap<Holding, LockHolder> {
    let name = |lock: &LockHolder| (lock.resource.clone(), lock.owner.clone());
    locks.into_iter().map(|lock| (name(&lock), lock)).collect()
}

fn by_name(queues: Vec<QueueStats>) -> BTreeMap<String, Aged<QueueStats>> {
    let named = |queue: QueueStats| (queue.queue.clone(), Aged::now(queue));
    queues.into_iter().map(named).collect()
}

fn by_key(keys: Vec<OnceView>) -> BTreeMap<String, OnceView> {
    keys.into_iter()
        .map(|view| (view.key.clone(), view))
        .collect()
}

/// Ignores the remaining time of a lease, which shrinks on its own.
fn is_like(old: &LockHolder, new: &LockHolder) -> bool {
    let old = LockHolder {
        remaining: new.remaining,
        ..old.clone()
    };
    old == *new
}

fn as_gone(lock: &LockHolder) -> LockRemoved {
    LockRemoved {
        resource: lock.resource.clone(),
        owner: lock.owner.clone(),
        token: lock.token,
    }
}

/// Statistics with an age.
trait Age: Clone + PartialEq {
    fn age(&mut self) -> &mut Option<Duration>;
}

impl Age for QueueStats {
    fn age(&mut self) -> &mut Option<Duration> {
        &mut self.oldest_pending
    }
}

impl Age for OutboxStats {
    fn age(&mut self) -> &mut Option<Duration> {
        &mut self.oldest_pending
    }
}

impl<T: Age> Aged<T> {
    fn now(stats: T) -> Self {
        Aged {
            at: Instant::now(),
            stats,
        }
    }

    /// Returns the statistics with the age that they have now if nothing has changed.
    fn by_now(&self) -> T {
        let mut stats = self.stats.clone();
        let age = stats.age();
        *age = age.map(|age| age + self.at.elapsed());
        stats
    }

    /// Ignores that the age grows on its own, but not a jump of the age.
    fn is_like(&self, new: &T) -> bool {
        let (mut old, mut new) = (self.by_now(), new.clone());
        let is_close = match (*old.age(), *new.age()) {
            (Some(old), Some(new)) => old.abs_diff(new) < CLOSE,
            (old, new) => old == new,
        };
        *old.age() = None;
        *new.age() = None;
        is_close && old == new
    }
}
