//! The wait of a leader that has nothing to publish: it gives up the leadership until there may be an event.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::futures::OwnedNotified;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::waiting;
use crate::wake::Watch;

/// A wait for a notification or until a time.
#[derive(Debug)]
pub(super) struct Rest {
    /// Kept, so that the store continues to listen.
    pub(super) _watch: Watch,
    pub(super) woken: Pin<Box<OwnedNotified>>,
    pub(super) until: Instant,
}

impl Rest {
    /// A relay remains the leader for this long after its last event, because the next one often follows soon.
    pub(super) const AFTER: Duration = Duration::from_secs(10);
    /// For a shorter pause the relay remains the leader.
    pub(super) const LEAST: Duration = Duration::from_secs(1);

    /// Waits until there may be an event. Without notifications it polls the store with a cheap query.
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
            match relay.source.has_pending(&**store).await {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => {
                    tracing::debug!(%error, "the outbox does not say whether there is anything");
                }
            }
        }
    }
}
