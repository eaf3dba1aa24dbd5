//! Cached overview of the store. `/v1/stream` and `/metrics` share the overview of all names.
//!
//! The store is polled only on a call of [`OverviewPoller::poll`]. Each part has its own pause after a poll. Until the pause is
//! over, callers get the last value, or the last error.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use turno::Turno;
use turno::inbox::QueueStats;
use turno::lock::LockHolder;
use turno::once::OnceView;
use turno::outbox::{OutboxStats, OutboxTable, OutboxTableStats};
use turno::overview::{self, MAX_PAUSE, Overview, pause_after};

/// Error of a poll that was dropped at its timeout.
pub(crate) const TIMED_OUT: &str = "the poll timed out";

/// Polls the overview of the names that begin with a prefix.
#[derive(Debug)]
pub(crate) struct OverviewPoller {
    pub(crate) turno: Turno,
    pub(crate) prefix: String,
    /// Locked while the store is read: concurrent callers wait for the result.
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    locks: Part<Vec<LockHolder>>,
    queues: Part<Vec<QueueStats>>,
    outbox: Part<Option<OutboxStats>>,
    once: Part<Vec<OnceView>>,
}

impl OverviewPoller {
    pub(crate) fn new(turno: Turno, prefix: String) -> Self {
        OverviewPoller {
            turno,
            prefix,
            parts: Mutex::default(),
        }
    }

    /// Polls the parts whose pause is over, and returns all parts. Ages and remaining times are those of now. The caller applies
    /// [`overview::POLL_TIMEOUT`]; a part whose poll is dropped has failed.
    pub(crate) async fn poll(&self) -> Result<Overview, String> {
        let OverviewPoller { turno, prefix, .. } = self;
        let mut parts = self.parts.lock().await;
        let (mut locks, age) = parts.locks.get(overview::locks(turno, prefix)).await?;
        for lock in &mut locks {
            lock.remaining = lock.remaining.saturating_sub(age);
        }
        let (mut queues, age) = parts.queues.get(turno.inbox_stats(prefix)).await?;
        for oldest in queues.iter_mut().flat_map(|q| &mut q.oldest_pending) {
            *oldest += age;
        }
        let (mut outbox, age) = parts.outbox.get(overview::outbox(turno, prefix)).await?;
        for oldest in outbox.iter_mut().flat_map(|o| &mut o.oldest_pending) {
            *oldest += age;
        }
        let (once, _) = parts.once.get(overview::once(turno, prefix)).await?;
        Ok(Overview {
            locks,
            queues,
            outbox,
            once,
        })
    }
}

/// Polls the counts of an outbox table, which is no part of the overview: it belongs to the application.
#[derive(Debug)]
pub(crate) struct TablePoller {
    table: OutboxTable,
    stats: Mutex<Part<OutboxTableStats>>,
}

impl TablePoller {
    pub(crate) fn new(table: OutboxTable) -> Self {
        TablePoller {
            table,
            stats: Mutex::default(),
        }
    }

    /// The table's name.
    pub(crate) fn name(&self) -> &str {
        self.table.table()
    }

    /// Returns the counts. As [`OverviewPoller::poll`].
    pub(crate) async fn poll(&self) -> Result<OutboxTableStats, String> {
        let mut part = self.stats.lock().await;
        let (mut stats, age) = part.get(self.table.stats()).await?;
        stats.oldest_pending = stats.oldest_pending.map(|oldest| oldest + age);
        Ok(stats)
    }
}

/// A part of the overview: the result of its last poll.
#[derive(Debug)]
struct Part<T> {
    throttle: Throttle,
    last: Result<(T, Instant), String>,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Part {
            throttle: Throttle::default(),
            last: Err(String::new()),
        }
    }
}

impl<T: Clone> Part<T> {
    /// Returns the value and its age. Reads it if the pause is over.
    async fn get(
        &mut self,
        read: impl Future<Output = turno::Result<T>>,
    ) -> Result<(T, Duration), String> {
        let last = &mut self.last;
        let poll = async {
            *last = Err(TIMED_OUT.to_owned());
            let read = read.await.map_err(|error| error.to_string());
            *last = read.map(|value| (value, Instant::now()));
        };
        self.throttle.run(poll).await;
        let (value, at) = self.last.clone()?;
        Ok((value, at.elapsed()))
    }
}

/// Limits how often something is polled: a pause of ten times its duration follows each poll.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    not_before: Option<Instant>,
}

impl Throttle {
    /// Runs a poll. Returns `None` without running it if the pause after the last one is not over.
    pub(crate) async fn run<T>(&mut self, poll: impl Future<Output = T>) -> Option<T> {
        let began = Instant::now();
        if self.not_before.is_some_and(|time| began < time) {
            return None;
        }
        // For a poll that is dropped at its timeout. Without this, it would be repeated immediately.
        self.not_before = Some(began + MAX_PAUSE);
        let polled = poll.await;
        self.not_before = Some(Instant::now() + pause_after(began.elapsed()));
        Some(polled)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

    use super::*;
    use std::future::{pending, ready};
    use turno::overview::PAUSE_FACTOR;

    /// Duration of a poll. Its pause is ten times as long: one second, within which a loaded machine polls again.
    const POLL: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_failed_poll_is_followed_by_a_pause() {
        let mut part = Part::default();
        let fails = async {
            tokio::time::sleep(POLL).await;
            Turno::connect("nonsense:").await.map(|_| 0)
        };
        let began = Instant::now();
        let error = part.get(fails).await.unwrap_err();
        let get = async |part: &mut Part<i32>| part.get(ready(Ok(1))).await;
        // The error is reported until the pause is over.
        assert_eq!(get(&mut part).await.unwrap_err(), error);
        while get(&mut part).await.is_err() {
            tokio::time::sleep(POLL / 10).await;
        }
        let pause = began.elapsed();
        assert!(pause > POLL * PAUSE_FACTOR, "{pause:?}");
    }

    #[tokio::test]
    async fn a_dropped_poll_is_followed_by_a_pause() {
        let mut part = Part::default();
        part.get(ready(Ok(1))).await.unwrap();
        tokio::time::sleep(POLL).await;
        let poll = part.get(pending());
        assert!(tokio::time::timeout(POLL / 10, poll).await.is_err());
        assert_eq!(part.get(ready(Ok(2))).await.unwrap_err(), TIMED_OUT);
    }

    /// The control: a poll that took no time may be repeated immediately.
    #[tokio::test]
    async fn a_quick_poll_has_no_pause() {
        let mut part = Part::default();
        assert_eq!(part.get(ready(Ok(1))).await.unwrap().0, 1);
        tokio::time::sleep(POLL).await;
        assert_eq!(part.get(ready(Ok(2))).await.unwrap().0, 2);
    }

    #[tokio::test]
    async fn a_value_is_cached_during_the_pause() {
        let mut part = Part::default();
        let slow = async {
            tokio::time::sleep(POLL).await;
            Ok(1)
        };
        part.get(slow).await.unwrap();
        assert_eq!(part.get(ready(Ok(2))).await.unwrap().0, 1);
    }
}
