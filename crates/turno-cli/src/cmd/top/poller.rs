//! Polls the store, within limits. A server is polled through the same lists and not through its stream, so that there is only
//! one code path.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use turno::Turno;
use turno::history::{History, HistoryEntry};
use turno::inbox::{ItemState, ItemView};
use turno::outbox::{EventState, EventView};
use turno::overview::{MAX_OPEN_KEYS, Overview, POLL_TIMEOUT, pause_after};

/// Minimum pause between polls.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of failed items, of dead events, of once keys per state and of history entries.
pub(super) const MAX_ROWS: u32 = MAX_OPEN_KEYS;

/// What is polled in addition to the overview.
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
    pub(super) overview: Overview,
    /// Items of a queue. This and the next fields are `None` if they were not polled.
    pub(super) items: Option<(String, Vec<ItemView>)>,
    pub(super) events: Option<Vec<EventView>>,
    pub(super) history: Option<Vec<HistoryEntry>>,
}

/// Result of a poll, or the text of its error.
pub(super) type PollResult = Result<Snapshot, String>;

/// Polls repeatedly.
pub(super) struct Poller {
    turno: Turno,
    prefix: String,
}

impl Poller {
    pub(super) fn new(turno: Turno, prefix: String) -> Self {
        Poller { turno, prefix }
    }

    /// Polls until the receiver is dropped. Polls at once if the focus changes.
    pub(super) async fn watch(
        self,
        mut focus: watch::Receiver<Focus>,
        results: mpsc::Sender<PollResult>,
    ) {
        let mut pause = MIN_PAUSE;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = focus.changed() => if changed.is_err() { return },
            }
            let wanted = focus.borrow_and_update().clone();
            let began = Instant::now();
            let result = match tokio::time::timeout(POLL_TIMEOUT, self.poll(&wanted)).await {
                Ok(polled) => polled.map_err(|error| error.to_string()),
                Err(_) => Err("no response in time".to_owned()),
            };
            pause = pause_after(began.elapsed()).max(MIN_PAUSE);
            if results.send(result).await.is_err() {
                return;
            }
        }
    }

    /// Polls once.
    pub(super) async fn poll(&self, focus: &Focus) -> turno::Result<Snapshot> {
        let Poller { turno, prefix } = self;
        let mut snapshot = Snapshot {
            overview: Overview::read(turno, prefix).await?,
            items: None,
            events: None,
            history: None,
            at: Instant::now(),
        };
        match focus {
            Focus::Nothing => {}
            Focus::Items(queue) => {
                let inbox = turno.inbox(queue);
                let items = inbox.list(ItemState::Failed, None, MAX_ROWS).await?;
                snapshot.items = Some((queue.clone(), items));
            }
            Focus::Events if snapshot.overview.outbox.is_none() => {
                snapshot.events = Some(Vec::new());
            }
            Focus::Events => snapshot.events = Some(self.events().await?),
            Focus::History => {
                let query = History {
                    prefix: prefix.clone(),
                    limit: MAX_ROWS,
                    ..History::default()
                };
                snapshot.history = Some(turno.history(query).await?);
            }
        }
        Ok(snapshot)
    }

    /// Returns blocked events first, because other events wait for them.
    async fn events(&self) -> turno::Result<Vec<EventView>> {
        let outbox = self.turno.outbox();
        let mut events = outbox.list(EventState::Blocked, None, MAX_ROWS).await?;
        events.extend(outbox.list(EventState::Dead, None, MAX_ROWS).await?);
        Ok(events)
    }
}
