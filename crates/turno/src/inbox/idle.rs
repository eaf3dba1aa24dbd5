//! Pauses of workers, relays and waiting claims that find no item.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

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

/// Idle state of one worker.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Mark since which every push notifies, as the store returned it before the last claim.
    sure: Option<String>,
    /// Begin of the first claim without an item.
    since: Option<Instant>,
    roused: Option<Instant>,
}

impl Idle {
    /// Ends the idle state: an item was found.
    pub(crate) fn end(&mut self) {
        self.since = None;
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
