//! Looks at the store, within bounds.

use std::collections::BTreeSet;
use std::time::Instant;

use serde::Serialize;
use turno::history::{History, HistoryEntry};
use turno::inbox::QueueStats;
use turno::lock::LockList;
use turno::once::{OnceList, OnceState, OnceView};
use turno::outbox::OutboxStats;
use turno::{MAX_PAGE, Turno};
use turno_client::wire::stream::{HeldLocks, HistoryNews, KnownQueues, OpenKeys};

use super::PATIENCE;

/// How many of a list are told of.
const MOST: usize = 500;
/// How many once keys of each state are told of.
const KEYS: u32 = 100;
/// How many bytes of a list are told of: a client reads no event of more than a megabyte.
const BYTES: usize = 256 * 1024;
/// How many entries of the history are looked at together, and how often in one look.
const PAGE: u32 = 100;
const PAGES: usize = 10;
/// A part is left alone for so many times as long as it took to look at: what is slow is looked at seldom, and all feeds
/// together cannot keep the store busy.
const REST: u32 = 10;

/// What one look saw; `None` is what it was not yet time for.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) locks: Option<HeldLocks>,
    pub(super) queues: Option<KnownQueues>,
    pub(super) outbox: Option<OutboxStats>,
    pub(super) once: Option<OpenKeys>,
    pub(super) history: HistoryNews,
}

/// Looks again and again.
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

    /// Everything whose time has come; all of it, the first time.
    pub(super) async fn look(&mut self) -> turno::Result<Seen> {
        let Looker { turno, prefix, .. } = self;
        let locks = self.locks.keep(locks(turno, prefix)).await?;
        let queues = self.queues.keep(queues(turno, prefix)).await?;
        let outbox = if prefix.is_empty() {
            self.outbox.keep(turno.outbox().stats()).await?
        } else {
            // Events have no names: only who may see everything may see these.
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

/// When a part may be looked at again.
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

async fn locks(turno: &Turno, prefix: &str) -> turno::Result<HeldLocks> {
    let list = LockList {
        prefix: prefix.to_owned(),
        limit: MAX_PAGE,
        ..LockList::default()
    };
    let all = turno.lock_list(list).await?;
    let held = all.len() as u64;
    let (locks, cut) = within(all, MOST);
    Ok(HeldLocks {
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

/// The first ones, as many as may be told of; and whether there are more.
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

/// What is known of the history.
#[derive(Default)]
struct Past {
    /// The newest entries that were seen, as many as one look may see; `None` before the first look.
    seen: Option<BTreeSet<i64>>,
}

impl Past {
    /// What is new. The newest entries of all names are read, which is quick, and those of others left out, so that a
    /// seldom name does not cost a search through the whole history.
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
            // A page that is full of news may have more behind it.
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
        // The outbox's have no name, and no prefix shows them.
        new.retain(|entry| entry.resource.starts_with(prefix));
        let (mut history, cut) = within(new, MOST);
        history.reverse();
        Ok(HistoryNews {
            history,
            more: more || cut,
        })
    }

    /// Entries are numbered before they are committed, so that one with a lower number may appear later; but not one from
    /// before everything that is remembered.
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
