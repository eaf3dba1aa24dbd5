//! Polls the store, within limits.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use turno::history::{History, HistoryEntry};
use turno::inbox::QueueStats;
use turno::lock::LockList;
use turno::once::{OnceList, OnceState, OnceView};
use turno::outbox::OutboxStats;
use turno::{MAX_PAGE, Turno};
use turno_api::stream::{self, HistoryNews, KnownQueues, OpenKeys};

/// Timeout of a poll.
pub(crate) const POLL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of entries per list.
const MAX_ENTRIES: usize = 500;
/// Maximum number of once keys per state.
const MAX_KEYS: u32 = 100;
/// Maximum size of a list in bytes, as JSON: clients read no event of more than one megabyte.
const MAX_LIST_BYTES: usize = 256 * 1024;
/// Page size of the history, and maximum number of pages per poll.
const PAGE: u32 = 100;
const PAGES: usize = 10;
/// Pause after polling a part, as a multiple of the poll's duration. A slow part is polled seldom, and all feeds together
/// cannot keep the store busy.
const PAUSE_FACTOR: u32 = 10;

/// Result of one poll. `None` for a part that is in its pause.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) locks: Option<stream::LockList>,
    pub(crate) queues: Option<KnownQueues>,
    pub(crate) outbox: Option<OutboxStats>,
    pub(crate) once: Option<OpenKeys>,
    pub(crate) history: HistoryNews,
}

/// Polls the store for one prefix.
pub(crate) struct Poller {
    turno: Turno,
    prefix: String,
    locks: Throttle,
    queues: Throttle,
    outbox: Throttle,
    once: Throttle,
    history: Throttle,
    history_cursor: HistoryCursor,
}

impl Poller {
    pub(crate) fn new(turno: Turno, prefix: String) -> Self {
        Poller {
            turno,
            prefix,
            locks: Throttle::default(),
            queues: Throttle::default(),
            outbox: Throttle::default(),
            once: Throttle::default(),
            history: Throttle::default(),
            history_cursor: HistoryCursor::default(),
        }
    }

    /// Polls the parts whose pause is over. The first poll reads all parts.
    pub(crate) async fn poll(&mut self) -> turno::Result<Snapshot> {
        let Poller { turno, prefix, .. } = self;
        let locks = self.locks.run(locks(turno, prefix)).await?;
        let queues = self.queues.run(queues(turno, prefix)).await?;
        let outbox = if prefix.is_empty() {
            self.outbox.run(turno.outbox().stats()).await?
        } else {
            // Events have no names, so only callers without a prefix may see them.
            None
        };
        let once = self.once.run(once(turno, prefix)).await?;
        let history = self
            .history
            .run(self.history_cursor.poll(turno, prefix))
            .await?;
        Ok(Snapshot {
            locks,
            queues,
            outbox,
            once,
            history: history.unwrap_or_default(),
        })
    }
}

/// Time at which a part may be polled again.
#[derive(Default)]
struct Throttle {
    not_before: Option<Instant>,
}

impl Throttle {
    async fn run<T>(
        &mut self,
        poll: impl Future<Output = turno::Result<T>>,
    ) -> turno::Result<Option<T>> {
        let began = Instant::now();
        if self.not_before.is_some_and(|time| began < time) {
            return Ok(None);
        }
        // For a poll that is dropped at its timeout. Without this, it would be repeated immediately.
        self.not_before = Some(began + POLL_TIMEOUT * PAUSE_FACTOR);
        let polled = poll.await;
        // Also after a failure.
        self.not_before = Some(Instant::now() + began.elapsed() * PAUSE_FACTOR);
        polled.map(Some)
    }
}

async fn locks(turno: &Turno, prefix: &str) -> turno::Result<stream::LockList> {
    let list = LockList {
        prefix: prefix.to_owned(),
        limit: MAX_PAGE,
        ..LockList::default()
    };
    let all = turno.lock_list(list).await?;
    let held = all.len() as u64;
    let (locks, cut) = limited(all, MAX_ENTRIES);
    Ok(stream::LockList {
        locks,
        held,
        more: cut || held >= MAX_PAGE.into(),
    })
}

async fn queues(turno: &Turno, prefix: &str) -> turno::Result<KnownQueues> {
    let all: Vec<QueueStats> = turno.inbox_stats(prefix).await?;
    let (queues, more) = limited(all, MAX_ENTRIES);
    Ok(KnownQueues { queues, more })
}

async fn once(turno: &Turno, prefix: &str) -> turno::Result<OpenKeys> {
    let mut all: Vec<OnceView> = Vec::new();
    let mut more = false;
    for state in [OnceState::InFlight, OnceState::Unknown] {
        let list = OnceList {
            state: Some(state),
            prefix: prefix.to_owned(),
            after: String::new(),
            limit: MAX_KEYS,
        };
        let page = turno.once_list(list).await?;
        more |= page.len() >= MAX_KEYS as usize;
        all.extend(page);
    }
    let (keys, cut) = limited(all, MAX_ENTRIES);
    Ok(OpenKeys {
        keys,
        more: more || cut,
    })
}

/// Returns the first entries, within the limits of number and size, and whether there are more.
fn limited<T: Serialize>(mut all: Vec<T>, most: usize) -> (Vec<T>, bool) {
    let mut bytes = 0;
    let fit = all.iter().take(most).take_while(|one| {
        bytes += serde_json::to_string(one).map_or(0, |text| text.len());
        bytes <= MAX_LIST_BYTES
    });
    let fit = fit.count();
    let more = fit < all.len();
    all.truncate(fit);
    (all, more)
}

/// Cursor of the history.
#[derive(Default)]
struct HistoryCursor {
    /// Ids of the newest entries that were read, at most as many as one poll may read. `None` before the first poll.
    read: Option<BTreeSet<i64>>,
}

impl HistoryCursor {
    /// Returns the new entries. Reads the newest entries of all names, which is fast, and drops those outside the prefix. A query
    /// by prefix would search the whole history for a rare name.
    async fn poll(&mut self, turno: &Turno, prefix: &str) -> turno::Result<HistoryNews> {
        let mut new = Vec::new();
        let mut before = None;
        let mut more = false;
        for page in 1..=PAGES {
            let query = History {
                before,
                limit: PAGE,
                ..History::default()
            };
            let entries = turno.store().history(&query).await?;
            let many = entries.len();
            before = entries.last().and_then(|entry| entry.id);
            let unread = entries.into_iter().filter(|entry| self.is_new(entry));
            let found = new.len();
            new.extend(unread);
            // If all entries of a full page are new, the next page may have more.
            if many < PAGE as usize || new.len() - found < many || self.read.is_none() {
                break;
            }
            more = page == PAGES;
        }
        let is_first = self.read.is_none();
        let read = self.read.get_or_insert_default();
        read.extend(new.iter().filter_map(|entry| entry.id));
        while read.len() > PAGE as usize * PAGES {
            read.pop_first();
        }
        if is_first {
            return Ok(HistoryNews::default());
        }
        // Entries of the outbox have no name, so a prefix never matches them.
        new.retain(|entry| entry.resource.starts_with(prefix));
        let (mut history, cut) = limited(new, MAX_ENTRIES);
        history.reverse();
        Ok(HistoryNews {
            history,
            more: more || cut,
        })
    }

    /// Whether an entry was not read before. Ids are assigned before commit, so an entry with a lower id may appear later, but
    /// never one that is older than all remembered ids.
    fn is_new(&self, entry: &HistoryEntry) -> bool {
        let (Some(id), Some(read)) = (entry.id, &self.read) else {
            return true;
        };
        let is_old = read.len() >= PAGE as usize && read.first().is_some_and(|oldest| id < *oldest);
        !is_old && !read.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

    use super::*;
    use std::future::{pending, ready};

    /// Duration of a poll. Its pause is ten times as long: one second, within which a loaded machine polls again.
    const POLL: Duration = Duration::from_millis(100);

    async fn is_polled(throttle: &mut Throttle) -> bool {
        throttle.run(ready(Ok(()))).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn a_failed_poll_is_followed_by_a_pause() {
        let mut throttle = Throttle::default();
        let fails = async {
            tokio::time::sleep(POLL).await;
            Turno::connect("nonsense:").await.map(drop)
        };
        let began = Instant::now();
        assert!(throttle.run(fails).await.is_err());
        assert!(!is_polled(&mut throttle).await);
        while !is_polled(&mut throttle).await {
            tokio::time::sleep(POLL / 10).await;
        }
        assert!(
            began.elapsed() > POLL * PAUSE_FACTOR,
            "{:?}",
            began.elapsed()
        );
    }

    #[tokio::test]
    async fn a_dropped_poll_is_followed_by_a_pause() {
        let mut throttle = Throttle::default();
        let poll = throttle.run(pending::<turno::Result<()>>());
        assert!(tokio::time::timeout(POLL / 10, poll).await.is_err());
        assert!(!is_polled(&mut throttle).await);
    }

    /// The control: a poll that took no time may be repeated immediately.
    #[tokio::test]
    async fn a_quick_poll_has_no_pause() {
        let mut throttle = Throttle::default();
        assert!(is_polled(&mut throttle).await);
        tokio::time::sleep(POLL).await;
        assert!(is_polled(&mut throttle).await);
    }
}
