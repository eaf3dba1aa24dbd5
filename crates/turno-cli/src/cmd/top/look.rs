//! Polls the store, within limits. A server is polled through the same lists and not through its stream, so that there is only
//! one code path.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use turno::history::{History, HistoryEntry};
use turno::inbox::{ItemState, ItemView, QueueStats};
use turno::lock::{LockHolder, LockList};
use turno::once::{OnceList, OnceState, OnceView};
use turno::outbox::{EventState, EventView, OutboxStats};
use turno::{MAX_PAGE, Turno};

/// Minimum poll interval.
const EVERY: Duration = Duration::from_secs(1);
/// Pause between polls, as a multiple of the duration of the last poll: a slow store is polled seldom.
const REST: u32 = 10;
/// Maximum pause.
const LONGEST_REST: Duration = Duration::from_secs(15);
/// Timeout of a poll.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of failed items, of dead events, of once keys per state and of history entries.
pub(super) const MOST: u32 = 200;

/// What is polled in addition to the parts that are always polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Focus {
    Nothing,
    /// The failed items of a queue.
    Items(String),
    /// The dead events.
    Events,
    History,
}

/// Result of one poll.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) locks: Vec<LockHolder>,
    pub(super) queues: Vec<QueueStats>,
    /// `None` if the caller may not see it.
    pub(super) outbox: Option<OutboxStats>,
    pub(super) once: Vec<OnceView>,
    /// Items of a queue. This and the next fields are `None` if they were not polled.
    pub(super) items: Option<(String, Vec<ItemView>)>,
    pub(super) events: Option<Vec<EventView>>,
    pub(super) history: Option<Vec<HistoryEntry>>,
}

/// Result of a poll, or the error.
pub(super) type Looked = Result<Snapshot, String>;

/// Polls repeatedly.
pub(super) struct Poller {
    turno: Turno,
    prefix: String,
}

impl Poller {
    pub(super) fn new(turno: Turno, prefix: String) -> Self {
        Poller { turno, prefix }
    }

    /// Polls until the receiver is dropped.
    pub(super) async fn watch(
        self,
        mut focus: watch::Receiver<Focus>,
        looks: mpsc::Sender<Looked>,
    ) {
        let mut rest = EVERY;
        loop {
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                changed = focus.changed() => if changed.is_err() { return },
            }
            let wanted = focus.borrow_and_update().clone();
            let began = Instant::now();
            let looked = match tokio::time::timeout(TIMEOUT, self.look(&wanted)).await {
                Ok(looked) => looked.map_err(|error| error.to_string()),
                Err(_) => Err("no response in time".to_owned()),
            };
            rest = (began.elapsed() * REST).clamp(EVERY, LONGEST_REST);
            if looks.send(looked).await.is_err() {
                return;
            }
        }
    }

    /// Polls once.
    pub(super) async fn look(&self, focus: &Focus) -> turno::Result<Snapshot> {
        let Poller { turno, prefix } = self;
        let list = LockList {
            prefix: prefix.clone(),
            limit: MAX_PAGE,
            ..LockList::default()
        };
        let mut snapshot = Snapshot {
            locks: turno.lock_list(list).await?,
            queues: turno.inbox_stats(prefix).await?,
            outbox: self.outbox().await?,
            once: self.once().await?,
            items: None,
            events: None,
            history: None,
            at: Instant::now(),
        };
        match focus {
            Focus::Nothing => {}
            Focus::Items(queue) => {
                let inbox = turno.inbox(queue);
                let items = inbox.list(ItemState::Failed, None, MOST).await?;
                snapshot.items = Some((queue.clone(), items));
            }
            Focus::Events if snapshot.outbox.is_none() => snapshot.events = Some(Vec::new()),
            Focus::Events => snapshot.events = Some(self.events().await?),
            Focus::History => {
                let ask = History {
                    prefix: prefix.clone(),
                    limit: MOST,
                    ..History::default()
                };
                snapshot.history = Some(turno.history(ask).await?);
            }
        }
        Ok(snapshot)
    }

    /// Events have no names, so they are shown only without a prefix, and to callers that may see all names.
    async fn outbox(&self) -> turno::Result<Option<OutboxStats>> {
        if !self.prefix.is_empty() {
            return Ok(None);
        }
        match self.turno.outbox().stats().await {
            Ok(stats) => Ok(Some(stats)),
            Err(error) if error.is_refused() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns blocked events first, because other events wait for them.
    async fn events(&self) -> turno::Result<Vec<EventView>> {
        let outbox = self.turno.outbox();
        let mut events = outbox.list(EventState::Blocked, None, MOST).await?;
        events.extend(outbox.list(EventState::Dead, None, MOST).await?);
        Ok(events)
    }

    /// Returns unknown keys first, because an operator has to decide about them.
    async fn once(&self) -> turno::Result<Vec<OnceView>> {
        let mut keys = Vec::new();
        for state in [OnceState::Unknown, OnceState::InFlight] {
            let list = OnceList {
                state: Some(state),
                prefix: self.prefix.clone(),
                after: String::new(),
                limit: MOST,
            };
            keys.extend(self.turno.once_list(list).await?);
        }
        Ok(keys)
    }
}
