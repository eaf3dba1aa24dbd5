//! Having nothing to do: for how long, and who has to be told.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{InboxIdle, InboxIdleness, Store};
use crate::waiting;

/// The shortest pause: something is due any moment.
const LEAST_PAUSE: Duration = Duration::from_millis(5);
/// The longest sleep that is good for anything.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// The mark in the store outlives the sleep by this.
const MARGIN: Duration = Duration::from_secs(5);
/// How often a busy worker wakes those that are idle, at the most.
const ROUSE_EVERY: Duration = Duration::from_secs(10);

/// What one worker knows about being idle.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Since when every push wakes, as the store said before the last claim.
    sure: Option<String>,
    /// Since when there has been nothing to do.
    since: Option<Instant>,
    roused: Option<Instant>,
}

impl Idle {
    /// Something was found.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }

    /// More was found than could be taken: others are woken too, now and then.
    pub(crate) async fn rouse(&mut self, store: &Arc<dyn Store>, queue: &str) {
        if self.roused.is_some_and(|at| at.elapsed() < ROUSE_EVERY) {
            return;
        }
        self.roused = Some(Instant::now());
        if let Err(error) = store.inbox_rouse(queue).await {
            tracing::debug!(%error, "the idle workers were not woken; each push wakes them");
        }
    }

    /// Says that there was nothing to do in a queue in a claim that began at `looked`, and answers how long to sleep; `None`
    /// to look once more at once. `most` is the longest sleep that is wanted.
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
            tracing::debug!(%error, "the store does not say when more is due");
            InboxIdleness::default()
        });
        let is_new = sure.is_some() && sure != self.sure;
        let is_sure = hears && sure.is_some();
        self.sure = sure;
        if is_new {
            // What was pushed before every push woke is found now, or never came.
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
