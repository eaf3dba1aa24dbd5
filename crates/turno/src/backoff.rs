//! Pauses between the attempts of a call that fails: doubled each time up to a limit, with jitter, so that many processes do
//! not retry at the same time.

use std::time::Duration;

/// The pauses of one kind of call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest }
    }

    /// Returns the pause after this number of failures in a row.
    pub(crate) fn after(self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        jittered(self.first.saturating_mul(doubled).min(self.longest))
    }

    /// Starts a series of attempts.
    pub(crate) fn attempts(self) -> Attempts {
        Attempts {
            backoff: self,
            failures: 0,
        }
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts {
    backoff: Backoff,
    failures: u32,
}

impl Attempts {
    /// Counts a failure and waits before the next attempt.
    ///
    /// Cancel-safe: the failure is counted at the first poll.
    pub(crate) async fn pause(&mut self) {
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(self.backoff.after(self.failures)).await;
    }

    /// Returns the longest time that the next pause may take.
    #[cfg(feature = "http")]
    pub(crate) fn longest_next(&self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures);
        let pause = self.backoff.first.saturating_mul(doubled);
        pause.min(self.backoff.longest).mul_f64(1.5)
    }

    /// Starts again with the first pause, after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Varies a pause by up to half of it.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(15));
        for (failures, millis) in [
            (0, 100),
            (1, 100),
            (2, 200),
            (5, 1600),
            (9, 15_000),
            (u32::MAX, 15_000),
        ] {
            let exact = Duration::from_millis(millis);
            let pause = backoff.after(failures);
            assert!(
                pause >= exact / 2 && pause <= exact * 3 / 2,
                "{failures}: {pause:?}"
            );
        }
    }
}
