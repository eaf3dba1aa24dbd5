//! The state that was sent to the subscribers, and its difference to a new poll.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use turno::inbox::QueueStats;
use turno::lock::LockHolder;
use turno::once::OnceView;
use turno::outbox::OutboxStats;
use turno_api::stream::{
    KnownQueues, LockList, LockRemoved, LocksChanged, OnceChanged, OpenKeys, QueuesChanged,
    Snapshot as SnapshotEvent,
};

use super::frame::EventWriter;
use super::poller::Snapshot;

/// Ages that differ from the expected value by less than this are not sent again.
const AGE_TOLERANCE: Duration = Duration::from_secs(1);

/// Key of a lock in the state: resource and owner. A shared lock has several owners.
type LockKey = (String, String);

/// The state that was sent.
pub(crate) struct SentState {
    locks: BTreeMap<LockKey, LockHolder>,
    held: u64,
    more_locks: bool,
    queues: BTreeMap<String, WithAge<QueueStats>>,
    more_queues: bool,
    outbox: Option<WithAge<OutboxStats>>,
    once: BTreeMap<String, OnceView>,
    more_once: bool,
}

/// Statistics with an age, and the time at which they were read.
struct WithAge<T> {
    at: Instant,
    stats: T,
}

impl SentState {
    /// Creates the state from the first poll.
    pub(crate) fn new(polled: Snapshot) -> Self {
        let Snapshot {
            locks,
            queues,
            outbox,
            once,
            ..
        } = polled;
        SentState {
            held: locks.held,
            more_locks: locks.more,
            locks: by_lock(locks.locks),
            more_queues: queues.more,
            queues: by_name(queues.queues),
            outbox: outbox.map(WithAge::now),
            more_once: once.more,
            once: by_key(once.keys),
        }
    }

    /// Returns the whole state.
    pub(crate) fn snapshot(&self) -> SnapshotEvent {
        SnapshotEvent {
            locks: LockList {
                locks: self.locks.values().cloned().collect(),
                held: self.held,
                more: self.more_locks,
            },
            queues: KnownQueues {
                queues: self.queues.values().map(WithAge::as_of_now).collect(),
                more: self.more_queues,
            },
            outbox: self.outbox.as_ref().map(WithAge::as_of_now),
            once: OpenKeys {
                keys: self.once.values().cloned().collect(),
                more: self.more_once,
            },
        }
    }

    /// Applies a poll to the state, and writes the differences.
    pub(crate) fn change(&mut self, polled: Snapshot, writer: &mut EventWriter<'_>) {
        self.locks(polled.locks, writer);
        self.queues(polled.queues, writer);
        if let Some(stats) = polled.outbox
            && !self.outbox.as_ref().is_some_and(|old| old.is_like(&stats))
        {
            writer.event("outbox", &stats);
            self.outbox = Some(WithAge::now(stats));
        }
        self.once(polled.once, writer);
        if !polled.history.history.is_empty() || polled.history.more {
            writer.event("history", &polled.history);
        }
    }

    fn locks(&mut self, polled: LockList, writer: &mut EventWriter<'_>) {
        let now = by_lock(polled.locks);
        let mut event = LocksChanged {
            held: polled.held,
            more: polled.more,
            ..LocksChanged::default()
        };
        for (name, lock) in &now {
            match self.locks.get(name) {
                None => event.added.push(lock.clone()),
                Some(old) if !is_like(old, lock) => event.changed.push(lock.clone()),
                Some(_) => {}
            }
        }
        let gone = self
            .locks
            .iter()
            .filter(|(name, _)| !now.contains_key(*name));
        event.gone = gone.map(|(_, lock)| as_gone(lock)).collect();
        let has_changes =
            !(event.added.is_empty() && event.changed.is_empty() && event.gone.is_empty())
                || (self.held, self.more_locks) != (polled.held, polled.more);
        if has_changes {
            writer.event("locks", &event);
        }
        (self.locks, self.held, self.more_locks) = (now, polled.held, polled.more);
    }

    fn queues(&mut self, polled: KnownQueues, writer: &mut EventWriter<'_>) {
        let now = by_name(polled.queues);
        let mut event = QueuesChanged {
            more: polled.more,
            ..QueuesChanged::default()
        };
        let gone = self.queues.keys().filter(|name| !now.contains_key(*name));
        event.gone = gone.cloned().collect();
        for name in &event.gone {
            self.queues.remove(name);
        }
        for (name, queue) in now {
            let is_known = |old: &WithAge<QueueStats>| old.is_like(&queue.stats);
            if !self.queues.get(&name).is_some_and(is_known) {
                event.changed.push(queue.stats.clone());
                self.queues.insert(name, queue);
            }
        }
        if !event.changed.is_empty() || !event.gone.is_empty() || self.more_queues != polled.more {
            writer.event("queues", &event);
        }
        self.more_queues = polled.more;
    }

    fn once(&mut self, polled: OpenKeys, writer: &mut EventWriter<'_>) {
        let now = by_key(polled.keys);
        let changed = now
            .iter()
            .filter(|(key, view)| self.once.get(*key) != Some(*view));
        let gone = self.once.keys().filter(|key| !now.contains_key(*key));
        let event = OnceChanged {
            changed: changed.map(|(_, view)| view.clone()).collect(),
            gone: gone.cloned().collect(),
            more: polled.more,
        };
        if !event.changed.is_empty() || !event.gone.is_empty() || self.more_once != polled.more {
            writer.event("once", &event);
        }
        (self.once, self.more_once) = (now, polled.more);
    }
}

fn by_lock(locks: Vec<LockHolder>) -> BTreeMap<LockKey, LockHolder> {
    let name = |lock: &LockHolder| (lock.resource.clone(), lock.owner.clone());
    locks.into_iter().map(|lock| (name(&lock), lock)).collect()
}

fn by_name(queues: Vec<QueueStats>) -> BTreeMap<String, WithAge<QueueStats>> {
    let named = |queue: QueueStats| (queue.queue.clone(), WithAge::now(queue));
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

impl<T: Age> WithAge<T> {
    fn now(stats: T) -> Self {
        WithAge {
            at: Instant::now(),
            stats,
        }
    }

    /// Returns the statistics with the age that they have now if nothing has changed.
    fn as_of_now(&self) -> T {
        let mut stats = self.stats.clone();
        let age = stats.age();
        *age = age.map(|age| age + self.at.elapsed());
        stats
    }

    /// Ignores that the age grows on its own, but not a jump of the age.
    fn is_like(&self, new: &T) -> bool {
        let (mut old, mut new) = (self.as_of_now(), new.clone());
        let is_close = match (*old.age(), *new.age()) {
            (Some(old), Some(new)) => old.abs_diff(new) < AGE_TOLERANCE,
            (old, new) => old == new,
        };
        *old.age() = None;
        *new.age() = None;
        is_close && old == new
    }
}
