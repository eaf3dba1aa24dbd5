//! Polls the store for a feed, within limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use turno::history::{History, HistoryEntry};
use turno::inbox::QueueStats;
use turno::lock::LockHolder;
use turno::once::{OnceState, OnceView};
use turno::outbox::OutboxStats;
use turno::overview::MAX_OPEN_KEYS;
use turno::{MAX_PAGE, Turno};
use turno_api::stream::{self, HistoryNews, KnownQueues, OpenKeys};

use crate::overview::{OverviewPoller, Throttle};

/// Maximum number of entries per list.
const MAX_ENTRIES: usize = 500;
/// Maximum size of a list in bytes, as JSON: clients read no event of more than one megabyte.
const MAX_LIST_BYTES: usize = 256 * 1024;
/// Page size of the history, and maximum number of pages per poll.
const PAGE: u32 = 100;
const PAGES: usize = 10;

/// Result of one poll.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) locks: stream::LockList,
    pub(crate) queues: KnownQueues,
    /// `None` with a prefix.
    pub(crate) outbox: Option<OutboxStats>,
    pub(crate) once: OpenKeys,
    pub(crate) history: HistoryNews,
}

/// Polls the store for one prefix.
pub(crate) struct Poller {
    overview: Arc<OverviewPoller>,
    history: Throttle,
    history_cursor: HistoryCursor,
}

impl Poller {
    pub(crate) fn new(overview: Arc<OverviewPoller>) -> Self {
        Poller {
            overview,
            history: Throttle::default(),
            history_cursor: HistoryCursor::default(),
        }
    }

    /// Polls the parts whose pause is over.
    pub(crate) async fn poll(&mut self) -> Result<Snapshot, String> {
        let overview = self.overview.poll().await?;
        let OverviewPoller { turno, prefix, .. } = &*self.overview;
        let history = self.history.run(self.history_cursor.poll(turno, prefix));
        let history = history.await.transpose();
        Ok(Snapshot {
            locks: locks(overview.locks),
            queues: queues(overview.queues),
            outbox: overview.outbox,
            once: once(overview.once),
            history: history.map_err(|e| e.to_string())?.unwrap_or_default(),
        })
    }
}

fn locks(all: Vec<LockHolder>) -> stream::LockList {
    let held = all.len() as u64;
    let (locks, cut) = limited(all, MAX_ENTRIES);
    stream::LockList {
        locks,
        held,
        more: cut || held >= MAX_PAGE.into(),
    }
}

fn queues(all: Vec<QueueStats>) -> KnownQueues {
    let (queues, more) = limited(all, MAX_ENTRIES);
    KnownQueues { queues, more }
}

fn once(all: Vec<OnceView>) -> OpenKeys {
    let is_full = |state| {
        let keys = all.iter().filter(|key| key.state == state);
        keys.count() >= MAX_OPEN_KEYS as usize
    };
    let more = is_full(OnceState::Unknown) || is_full(OnceState::InFlight);
    let (keys, cut) = limited(all, MAX_ENTRIES);
    OpenKeys {
        keys,
        more: more || cut,
    }
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
