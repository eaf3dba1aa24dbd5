//! Keeping a lease: renewed well before its end, and given up in time when it cannot be.
//!
//! A lease of time to live T is renewed every T/3. If renewals fail, the work is asked to stop at
//! T − 2m and has stopped at T − m, where the margin m is a tenth of what was granted (which `max_hold`
//! may make less than T) and 5 s at the most: before the lease could have expired, on this process's own steady clock, counted from before the question was sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::lease::{LeaseState, renew};
use super::{LeaseId, RenewOutcome};
use crate::Turno;

/// The longest margin before the expiry.
const MAX_MARGIN: Duration = Duration::from_secs(5);
/// The pause after a failed renewal is a fraction of the time to live, within these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long before its expiry a lease is taken for gone.
pub(super) fn margin(granted: Duration) -> Duration {
    (granted / 10).min(MAX_MARGIN)
}

/// Renews a lease in the background, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the renewals"]
pub struct AutoRenew {
    _task: AbortOnDropHandle<()>,
}

impl AutoRenew {
    pub(super) fn spawn(turno: Turno, id: LeaseId, ttl: Duration, state: Arc<LeaseState>) -> Self {
        let task = tokio::spawn(async move {
            keep(&turno, &id, ttl, &state).await;
            state.ending.cancel();
        });
        AutoRenew {
            _task: AbortOnDropHandle::new(task),
        }
    }
}

/// Returns when the lease is lost or its end is near.
async fn keep(turno: &Turno, id: &LeaseId, ttl: Duration, state: &LeaseState) {
    let pause = (ttl / 20).clamp(PAUSES.0, PAUSES.1);
    let mut next = Instant::now() + ttl / 3;
    loop {
        let stop = state.expiry() - 2 * state.margin;
        sleep_until(next.min(stop)).await;
        let asked = Instant::now();
        if asked >= stop {
            return;
        }
        next = match timeout_at(stop, renew(turno, id, ttl, state)).await {
            Ok(Ok(RenewOutcome::Renewed { .. })) => asked + ttl / 3,
            Ok(Ok(RenewOutcome::Lost)) => return,
            Ok(Err(error)) => {
                tracing::warn!(lease = %id, %error, "a renewal failed; it is tried again until the lease must be given up");
                Instant::now() + pause
            }
            Err(_) => return,
        };
    }
}

/// Resolves when the lease must be taken for gone.
pub(super) async fn gone(state: &LeaseState) {
    loop {
        let expiry = state.expiry();
        tokio::select! {
            () = state.lost.cancelled() => return,
            () = sleep_until(expiry - state.margin) => {}
        }
        // It may have been renewed meanwhile.
        if state.expiry() <= expiry {
            return;
        }
    }
}
