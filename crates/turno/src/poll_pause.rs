//! Pauses between polls where notifications do not arrive.

use std::time::Duration;

/// Shortest pause between two polls.
const FIRST: Duration = Duration::from_millis(20);
/// Longest pause between two polls.
const LONGEST: Duration = Duration::from_secs(5);
/// A pause is the time waited so far divided by this, so a change is found with a delay of at most that part of the wait.
const PART: u32 = 10;
/// Minimum and maximum factor of a jittered pause.
const LEAST_JITTER: f64 = 0.9;
pub(crate) const MOST_JITTER: f64 = 1.1;

/// Returns the pause of a waiter without notifications. It grows with the time waited and is at most `most`.
pub(crate) fn growing(waited: Duration, most: Duration) -> Duration {
    jittered((waited / PART).clamp(FIRST, LONGEST)).min(most.max(FIRST))
}

/// Varies a pause by up to 10 %, so that waiters do not poll at the same time.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(LEAST_JITTER + fastrand::f64() * (MOST_JITTER - LEAST_JITTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_with_the_wait_and_is_bounded() {
        let hour = Duration::from_secs(3600);
        assert!(growing(Duration::ZERO, hour) <= FIRST.mul_f64(MOST_JITTER));
        assert!(growing(Duration::from_secs(1), hour) <= Duration::from_millis(110));
        assert!(growing(hour, hour) >= LONGEST.mul_f64(LEAST_JITTER));
        assert!(growing(hour, hour) <= LONGEST.mul_f64(MOST_JITTER));
        let bound = Duration::from_millis(50);
        assert!(growing(hour, bound) <= bound);
    }
}
