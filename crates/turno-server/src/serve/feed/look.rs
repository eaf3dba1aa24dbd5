//! Polls the store, within limits.

use std::collections::BTreeSet;
use std::time::Instant;

use serde::Serialize;
use turno::history::{History, HistoryEntry};
use turno::inbox::QueueStats;
use turno::lock::LockList;
use turno::once::{OnceList, OnceState, OnceView};
use turno::outbox::OutboxStats;
use turno::{MAX_PAGE, Turno};
use turno_api::stream::{self, HistoryNews, KnownQueues, OpenKeys};

use super::PATIENCE;

/// How many of a list are told of.
const MOST: usize = 500;
/// Maximum number of once keys per state.
const KEYS: u32 = 100;
/// Maximum size of a list in bytes, as JSON: clients read no event of more than one megabyte.
const BYTES: usize = 256 * 1024;
/// Page size of the history, and maximum number of pages per poll.
const PAGE: u32 = 100;
const PAGES: usize = 10;
/// Pause after polling a part, as a multiple of the poll's duration. A slow part is polled seldom, and all feeds together
/// cannot keep the store busy.
const REST: u32 = 10;

/// Result of one poll. `None` for a part that is in its pause.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) locks: Option<stream::LockList>,
    pub(super) queues: Option<KnownQueues>,
    pub(super) outbox: Option<OutboxStats>,
    pub(super) once: Option<OpenKeys>,
    pub(super) history: HistoryNews,
}

/// Polls the store for one prefix.
pub(super) struct Looker {
    turno: Turno,
    prefix: String,
    locks: Pace,
    queues: Pace,
    outbox: Pace,
    once: Pace,
    history: Pace,
    past: Past,
}

impl Looker {
    pub(super) fn new(turno: Turno, prefix: String) -> Self {
        Looker {
            turno,
            prefix,
            locks: Pace::default(),
            queues: Pace::default(),
            outbox: Pace::default(),
            once: Pace::default(),
            history: Pace::default(),
            past: Past::default(),
        }
    }

    /// Polls the parts whose pause is over. The first poll reads all parts.
    pub(super) async fn look(&mut self) -> turno::Result<Seen> {
        let Looker { turno, prefix, .. } = self;
        let locks = self.locks.keep(locks(turno, prefix)).await?;
        let queues = self.queues.keep(queues(turno, prefix)).await?;
        let outbox = if prefix.is_empty() {
            self.outbox.keep(turno.outbox().stats()).await?
        } else {
            // Events have no names, so only callers without a prefix may see them.
            None
        };
        let once = self.once.keep(once(turno, prefix)).await?;
        let history = self.history.keep(self.past.look(turno, prefix)).await?;
        Ok(Seen {
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
struct Pace {
    not_before: Option<Instant>,
}

impl Pace {
    async fn keep<T>(
        &mut self,
        look: impl Future<Output = turno::Result<T>>,
    ) -> turno::Result<Option<T>> {
        let began = Instant::now();
        if self.not_before.is_some_and(|time| began < time) {
            return Ok(None);
        }
        // For a look that is dropped at its time limit, which would otherwise be repeated at once.
        self.not_before = Some(began + PATIENCE * REST);
        let seen = look.await;
        // Also after a failure.
        self.not_before = Some(Instant::now() + began.elapsed() * REST);
        seen.map(Some)
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
    let (locks, cut) = within(all, MOST);
    Ok(stream::LockList {
        locks,
        held,
        more: cut || held >= MAX_PAGE.into(),
    })
}

async fn queues(turno: &Turno, prefix: &str) -> turno::Result<KnownQueues> {
    let all: Vec<QueueStats> = turno.inbox_stats(prefix).await?;
    let (queues, more) = within(all, MOST);
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
            limit: KEYS,
        };
        let page = turno.once_list(list).await?;
        more |= page.len() >= KEYS as usize;
        all.extend(page);
    }
    let (keys, cut) = within(all, MOST);
    Ok(OpenKeys {
        keys,
        more: more || cut,
    })
}

/// Returns the first entries, within the limits of number and size, and whether there are more.
fn within<T: Serialize>(mut all: Vec<T>, most: usize) -> (Vec<T>, bool) {
    let mut bytes = 0;
    let fit = all.iter().take(most).take_while(|one| {
        bytes += serde_json::to_string(one).map_or(0, |text| text.len());
        bytes <= BYTES
    });
    let fit = fit.count();
    let more = fit < all.len();
    all.truncate(fit);
    (all, more)
}

/// Cursor of the history.
#[derive(Default)]
struct Past {
    /// Ids of the newest entries that were read, at most as many as one poll may read. `None` before the first poll.
    seen: Option<BTreeSet<i64>>,
}

impl Past {
    /// Returns the new entries. Reads the newest entries of all names, which is fast, and drops those outside the prefix. A query
    /// by prefix would search the whole history for a rare name.
    async fn look(&mut self, turno: &Turno, prefix: &str) -> turno::Result<HistoryNews> {
        let mut new = Vec::new();
        let mut before = None;
        let mut more = false;
        for page in 1..=PAGES {
            let ask = History {
                before,
                limit: PAGE,
                ..History::default()
            };
            let entries = turno.store().history(&ask).await?;
            let many = entries.len();
            before = entries.last().and_then(|entry| entry.id);
            let unseen = entries.into_iter().filter(|entry| self.is_new(entry));
            let found = new.len();
            new.extend(unseen);
            // If all entries of a full page are new, the next page may have more.
            if many < PAGE as usize || new.len() - found < many || self.seen.is_none() {
                break;
            }
            more = page == PAGES;
        }
        let is_first = self.seen.is_none();
        let seen = self.seen.get_or_insert_default();
        seen.extend(new.iter().filter_map(|entry| entry.id));
        while seen.len() > PAGE as usize * PAGES {
            seen.pop_first();
        }
        if is_first {
            return Ok(HistoryNews::default());
        }
        // Entries of the outbox have no name, so a prefix never matches them.
        new.retain(|entry| entry.resource.starts_with(prefix));
        let (mut history, cut) = within(new, MOST);
        history.reverse();
        Ok(HistoryNews {
            history,
            more: more || cut,
        })
    }

    /// Whether an entry was not read before. Ids are assigned before commit, so an entry with a lower id may appear later, but
    /// never one that is older than all remembered ids.
    fn is_new(&self, entry: &HistoryEntry) -> bool {
        let (Some(id), Some(seen)) = (entry.id, &self.seen) else {
            return true;
        };
        let is_old = seen.len() >= PAGE as usize && seen.first().is_some_and(|oldest| id < *oldest);
        !is_old && !seen.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    /// Its pause is ten times as long: a second, within which a loaded machine asks again.
    const LOOK: Duration = Duration::from_millis(100);

    async fn is_looked_at(pace: &mut Pace) -> bool {
        pace.keep(ready(Ok(()))).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn a_look_that_failed_is_followed_by_a_pause() {
        let mut pace = Pace::default();
        let fails = async {
            tokio::time::sleep(LOOK).await;
            Turno::connect("nonsense:").await.map(drop)
        };
        let began = Instant::now();
        assert!(pace.keep(fails).await.is_err());
        assert!(!is_looked_at(&mut pace).await);
        while !is_looked_at(&mut pace).await {
            tokio::time::sleep(LOOK / 10).await;
        }
        assert!(began.elapsed() > LOOK * REST, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_look_that_was_dropped_is_followed_by_a_pause() {
        let mut pace = Pace::default();
        let look = pace.keep(pending::<turno::Result<()>>());
        assert!(tokio::time::timeout(LOOK / 10, look).await.is_err());
        assert!(!is_looked_at(&mut pace).await);
    }

    /// The control: a look that took no time is repeated as soon as it is asked for.
    #[tokio::test]
    async fn a_quick_look_has_no_pause() {
        let mut pace = Pace::default();
        assert!(is_looked_at(&mut pace).await);
        tokio::time::sleep(LOOK).await;
        assert!(is_looked_at(&mut pace).await);
    }
}
