//! Resting: a relay that publishes alone, and has nothing to publish, gives way to others until there is something.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::futures::OwnedNotified;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::waiting;
use crate::wake::Watch;

/// A relay that rests: until an emission wakes it, or its time comes.
#[derive(Debug)]
pub(super) struct Rest {
    /// Kept, so that the store goes on listening.
    pub(super) _watch: Watch,
    pub(super) woken: Pin<Box<OwnedNotified>>,
    pub(super) until: Instant,
}

impl Rest {
    /// A relay that has published goes on leading for so long: the next event is often soon to come.
    pub(super) const AFTER: Duration = Duration::from_secs(10);
    /// For less than this it is not worth giving way.
    pub(super) const LEAST: Duration = Duration::from_secs(1);

    /// Waits until there may be something to publish. Where emissions do not wake, it is one short question now and then.
    pub(super) async fn over(mut self, relay: &Relay, stop: &CancellationToken) {
        let store = relay.outbox.turno().store();
        let began = Instant::now();
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let (hears, pause) = match store.wakers().is_live() {
                true => (true, left),
                false => (
                    false,
                    waiting::growing_pause(began.elapsed() + Rest::AFTER, relay.poll),
                ),
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = &mut self.woken => return,
                () = tokio::time::sleep(pause) => {}
            }
            if hears {
                return;
            }
            match store.outbox_stats().await {
                Ok(stats) if stats.pending == 0 && stats.processing == 0 => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "the outbox does not say whether there is anything");
                }
            }
        }
    }
}
