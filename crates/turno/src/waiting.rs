//! The loop of every wait: for a lock, for items of a queue, for the answer of a once key.
//!
//! A waiter makes an attempt, then pauses until a notification arrives or the pause ends, and makes the next attempt, until
//! an attempt succeeds or the deadline has passed.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::error::Result;
use crate::wake::Watch;

/// Shortest pause of a waiter without notifications.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause of a waiter without notifications.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A pause is the time waited so far divided by this, so a change is found with a delay of at most that part of the wait.
const PAUSE_PART: u32 = 10;
/// Minimum and maximum factor of a jittered pause.
const MIN_JITTER: f64 = 0.9;
pub(crate) const MAX_JITTER: f64 = 1.1;

/// One wait of one caller.
///
/// The futures are declared as `Send`, because callers spawn the functions that await them.
pub(crate) trait Waiter: Send {
    type Outcome: Send;

    /// Runs before each attempt, for example to register the waiter. Default: nothing.
    fn prepare(&mut self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The notifications to wait for.
    fn watch(&self) -> &Watch;

    /// Makes one attempt.
    fn attempt(&mut self) -> impl Future<Output = Result<Self::Outcome>> + Send;

    /// Returns whether the wait continues after this outcome.
    fn is_pending(outcome: &Self::Outcome) -> bool;

    /// Returns when to make the next attempt if no notification arrives; `None` for an attempt at once.
    fn next_attempt(&mut self, deadline: Instant) -> impl Future<Output = Option<Instant>> + Send;

    /// Runs after a notification. Default: nothing.
    fn woken(&mut self, deadline: Instant) -> impl Future<Output = ()> + Send {
        let _ = deadline;
        std::future::ready(())
    }
}

/// Makes attempts until one succeeds or the deadline has passed, and returns the last outcome. There is at least one attempt.
pub(crate) async fn wait_until<W: Waiter>(deadline: Instant, mut waiter: W) -> Result<W::Outcome> {
    loop {
        waiter.prepare().await?;
        // Subscribes before the attempt, so that a change between the attempt and the pause is not missed.
        let woken = waiter.watch().next();
        let outcome = waiter.attempt().await?;
        if !W::is_pending(&outcome) || Instant::now() >= deadline {
            return Ok(outcome);
        }
        let Some(next) = waiter.next_attempt(deadline).await else {
            continue;
        };
        tokio::select! {
            () = woken => waiter.woken(deadline).await,
            () = sleep_until(next.min(deadline)) => {}
        }
    }
}

/// Returns the pause of a waiter without notifications. It grows with the time waited and is at most `longest`.
pub(crate) fn growing_pause(waited: Duration, longest: Duration) -> Duration {
    jittered((waited / PAUSE_PART).clamp(FIRST_PAUSE, LONGEST_PAUSE)).min(longest.max(FIRST_PAUSE))
}

/// Varies a pause by up to 10 %, so that waiters do not poll at the same time.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(MIN_JITTER + fastrand::f64() * (MAX_JITTER - MIN_JITTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_with_the_wait_and_is_bounded() {
        let hour = Duration::from_secs(3600);
        assert!(growing_pause(Duration::ZERO, hour) <= FIRST_PAUSE.mul_f64(MAX_JITTER));
        assert!(growing_pause(Duration::from_secs(1), hour) <= Duration::from_millis(110));
        assert!(growing_pause(hour, hour) >= LONGEST_PAUSE.mul_f64(MIN_JITTER));
        assert!(growing_pause(hour, hour) <= LONGEST_PAUSE.mul_f64(MAX_JITTER));
        let bound = Duration::from_millis(50);
        assert!(growing_pause(hour, bound) <= bound);
    }
}
