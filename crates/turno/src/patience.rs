//! How long to wait before looking again, where nothing calls.

use std::time::Duration;

/// The first pause between two looks.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause between two looks.
const LONGEST: Duration = Duration::from_secs(5);
/// A look comes later by this part of the time waited so far: what is waited for is found at the most so much later.
const PART: u32 = 10;
/// The least that a jittered pause is of what was asked for, and the most.
const LEAST_JITTER: f64 = 0.9;
pub(crate) const MOST_JITTER: f64 = 1.1;

/// The pause of one who hears nothing, and has waited for so long: it grows with the wait, and is never longer than `most`.
pub(crate) fn deaf(waited: Duration, most: Duration) -> Duration {
    jittered((waited / PART).clamp(FIRST, LONGEST)).min(most.max(FIRST))
}

/// Not all at once.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(LEAST_JITTER + fastrand::f64() * (MOST_JITTER - LEAST_JITTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_with_the_wait_and_is_bounded() {
        let hour = Duration::from_secs(3600);
        assert!(deaf(Duration::ZERO, hour) <= FIRST.mul_f64(MOST_JITTER));
        assert!(deaf(Duration::from_secs(1), hour) <= Duration::from_millis(110));
        assert!(deaf(hour, hour) >= LONGEST.mul_f64(LEAST_JITTER));
        assert!(deaf(hour, hour) <= LONGEST.mul_f64(MOST_JITTER));
        let bound = Duration::from_millis(50);
        assert!(deaf(hour, bound) <= bound);
    }
}
