//! Pauses of workers, relays and waiting claims that find no item.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::pace::Pace;
use crate::store::{InboxIdle, InboxIdleness, Store};
use crate::waiting;

/// Shortest pause, if an item is due soon.
const LEAST_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// The mark of an idle worker in the store is valid for this much longer than its pause.
const MARGIN: Duration = Duration::from_secs(5);
/// Minimum interval between two notifications by which a busy worker wakes idle ones.
const ROUSE_EVERY: Duration = Duration::from_secs(10);

/// Pause between the claims of a worker under a steady load.
const POLL_PAUSE: Duration = Duration::from_millis(3);
/// Pushes do not notify for this long after such a worker said so.
const POLL_LASTS: Duration = Duration::from_secs(2);
/// It says so again after this time.
const POLL_RENEWAL: Duration = Duration::from_millis(500);
/// If it has not claimed for this long, because all its handlers are busy, pushes have to notify others.
pub(crate) const POLL_GRACE: Duration = Duration::from_millis(20);

/// Idle state of one worker.
///
/// A worker that seldom finds items waits to be woken: it costs the store nothing. Under a steady load it would be woken by every
/// push, and PostgreSQL lets commits that notify wait for each other. So it claims at short intervals, and pushes do not notify.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Mark since which every push notifies, as the store returned it before the last claim.
    sure: Option<String>,
    /// Begin of the first claim without an item.
    since: Option<Instant>,
    roused: Option<Instant>,
    pace: Pace,
    polling: Option<Polling>,
}

/// The state of a worker that claims at short intervals.
#[derive(Debug)]
struct Polling {
    /// The last call of `inbox_poll`.
    renewed: Instant,
    /// The last claim.
    looked: Instant,
}

impl Idle {
    /// Ends the idle state: a claim found items.
    pub(crate) async fn found(&mut self, store: &Arc<dyn Store>, queue: &str, items: usize) {
        self.since = None;
        self.pace.add(items, Instant::now());
        self.poll(store, queue).await;
    }

    /// Begins to poll under a steady load, and goes on if it has begun. Renews that in the store.
    async fn poll(&mut self, store: &Arc<dyn Store>, queue: &str) {
        let now = Instant::now();
        let is_due = match &mut self.polling {
            Some(polling) => {
                polling.looked = now;
                now - polling.renewed >= POLL_RENEWAL
            }
            None => self.pace.is_high(now) && store.wakers().is_live(),
        };
        if !is_due {
            return;
        }
        let is_cheaper = store.inbox_poll(queue, POLL_LASTS).await;
        let is_cheaper = is_cheaper.unwrap_or_else(|error| {
            tracing::debug!(%error, "pushes notify");
            false
        });
        self.polling = is_cheaper.then_some(Polling {
            renewed: now,
            looked: now,
        });
    }

    pub(crate) fn is_polling(&self) -> bool {
        self.polling.is_some()
    }

    /// Lets pushes notify again if this worker polls and has not claimed for [`POLL_GRACE`].
    pub(crate) async fn neglect(&mut self, store: &Arc<dyn Store>, queue: &str) {
        if let Some(polling) = &self.polling
            && polling.looked.elapsed() >= POLL_GRACE
        {
            self.stop_polling(store, queue).await;
        }
    }

    /// Lets pushes notify again, if this worker polls.
    pub(crate) async fn stop_polling(&mut self, store: &Arc<dyn Store>, queue: &str) {
        if self.polling.take().is_some()
            && let Err(error) = store.inbox_poll(queue, Duration::ZERO).await
        {
            tracing::debug!(%error, "pushes do not notify for some seconds");
        }
    }

    /// Wakes idle workers, at most once per [`ROUSE_EVERY`], because there are more items than this worker can claim.
    pub(crate) async fn rouse(&mut self, store: &Arc<dyn Store>, queue: &str) {
        if self.roused.is_some_and(|at| at.elapsed() < ROUSE_EVERY) {
            return;
        }
        self.roused = Some(Instant::now());
        if let Err(error) = store.inbox_rouse(queue).await {
            tracing::debug!(%error, "the idle workers were not woken; each push wakes them");
        }
    }

    /// Records in the store that a claim that began at `looked` found no item. Returns the pause before the next claim, at most
    /// `most`; `None` for a claim at once.
    pub(crate) async fn pause(
        &mut self,
        store: &Arc<dyn Store>,
        queue: &str,
        looked: Instant,
        most: Duration,
    ) -> Option<Duration> {
        if self.pace.is_over(Instant::now()) {
            self.stop_polling(store, queue).await;
        } else if self.is_polling() {
            self.poll(store, queue).await;
            return Some(POLL_PAUSE);
        }
        let most = most.clamp(LEAST_PAUSE, LONGEST_SLEEP);
        let since = *self.since.get_or_insert(looked);
        let hears = store.wakers().is_live();
        let ask = InboxIdle {
            queue: queue.to_owned(),
            listens: if hears {
                most.mul_f64(waiting::MAX_JITTER) + MARGIN
            } else {
                Duration::ZERO
            },
            looked: looked.elapsed(),
        };
        let InboxIdleness { due, sure } = store.inbox_idle(&ask).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "the time of the next due item is unknown");
            InboxIdleness::default()
        });
        let is_new = sure.is_some() && sure != self.sure;
        let is_sure = hears && sure.is_some();
        self.sure = sure;
        if is_new {
            // Pushes before the mark did not notify this worker, so one more claim must look for their items.
            return None;
        }
        let pause = if is_sure {
            waiting::jittered(most)
        } else {
            waiting::growing_pause(since.elapsed(), most)
        };
        Some(due.map_or(pause, |due| due.max(LEAST_PAUSE).min(pause)))
    }
}
