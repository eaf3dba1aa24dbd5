//! Automatic renewal of a lease.
//!
//! A lease with TTL T is renewed every T/3. If renewals fail, the work is asked to stop at T − 2m and is stopped at T − m. The
//! margin m is a tenth of the granted time (which `max_hold` may make shorter than T), at most 5 s. Times are on this process's
//! monotonic clock, counted from before the request was sent, so the work stops before the lease can expire.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::lease::{LeaseState, renew};
use super::{LeaseId, RenewOutcome};
use crate::Turno;

/// Longest margin before the expiry.
const MAX_MARGIN: Duration = Duration::from_secs(5);
/// Shortest and longest pause after a failed renewal, which is a fraction of the TTL.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Returns how long before its expiry a lease counts as ended.
pub(super) fn margin(granted: Duration) -> Duration {
    (granted / 10).min(MAX_MARGIN)
}

/// Renews a lease in the background until it is dropped.
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

/// Resolves when the lease counts as ended.
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
