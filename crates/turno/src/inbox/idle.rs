//! Having nothing to do: for how long, and who has to be told.

use std::sync::Arc;
use std::time::Duration;

use crate::store::Store;

/// The longest pause between two looks, when pushes do not wake.
const DEAF_POLL: Duration = Duration::from_millis(100);
/// The shortest pause: something is due any moment.
const LEAST_PAUSE: Duration = Duration::from_millis(5);
/// How often an idle worker says that it is, however seldom it wants to look.
pub(crate) const SAY_IDLE: Duration = Duration::from_secs(4);

/// Says that there is nothing to do in a queue, and finds out for how long.
pub(crate) async fn pause(store: &Arc<dyn Store>, queue: &str, poll: Duration) -> Duration {
    let poll = if store.wakers().is_live() {
        poll.min(SAY_IDLE)
    } else {
        poll.min(DEAF_POLL)
    };
    let due = match store.inbox_wait(queue).await {
        Ok(due) => due,
        Err(error) => {
            tracing::debug!(%error, "the store does not say when more is due");
            None
        }
    };
    let poll = poll.mul_f64(0.9 + fastrand::f64() / 5.0);
    due.map_or(poll, |due| due.clamp(LEAST_PAUSE, poll))
}
