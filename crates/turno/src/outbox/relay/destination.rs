//! The backoff of a destination after an outage: the same for the sink as a whole and for the events of one type.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::store::MAX_BATCH;

/// Maximum of a `Retry-After`, so that a wrong one does not stop a relay for a day.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);
/// At this number of events there is no limit, because no batch has more.
const UNLIMITED: u32 = MAX_BATCH.next_power_of_two();

/// State of one destination. Only a success resets the backoff.
#[derive(Debug)]
pub(super) struct Destination {
    /// Number of outages since the last success.
    outages: u32,
    /// Time before which no event is published.
    until: Instant,
    /// Number of events that may be published at once: one after an outage, doubled by each success.
    allowed: u32,
}

impl Destination {
    pub(super) fn new(now: Instant) -> Self {
        Destination {
            outages: 0,
            until: now,
            allowed: UNLIMITED,
        }
    }

    /// Records an outage.
    pub(super) fn outage(&mut self, backoff: Backoff, retry_after: Option<Duration>, now: Instant) {
        self.outages = self.outages.saturating_add(1);
        self.allowed = 1;
        self.until = now + backoff.after(self.outages);
        self.wait_for(retry_after, now);
    }

    /// Extends the pause to what the destination has requested.
    pub(super) fn wait_for(&mut self, retry_after: Option<Duration>, now: Instant) {
        if let Some(asked) = retry_after {
            // Never earlier than asked, and not all relays at the same moment.
            let asked = asked
                .min(MAX_RETRY_AFTER)
                .mul_f64(1.0 + fastrand::f64() / 10.0);
            self.until = self.until.max(now + asked);
        }
    }

    /// Records that the destination has responded.
    pub(super) fn success(&mut self, now: Instant) {
        self.outages = 0;
        self.until = now;
        self.allowed = self.allowed.saturating_mul(2).min(UNLIMITED);
    }

    /// Reserves the next attempt for one caller; others wait as if it had failed.
    pub(super) fn begin_trial(&mut self, backoff: Backoff, now: Instant) {
        self.until = now + backoff.after(self.outages.saturating_add(1));
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Returns how long no event may be published; `None` if it may be now.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        let left = self.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    pub(super) fn allowed(&self) -> u32 {
        self.allowed
    }

    /// Returns whether the backoff is at its start.
    pub(super) fn is_over(&self) -> bool {
        self.outages == 0 && self.allowed >= UNLIMITED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSES: Backoff = Backoff {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(15),
    };

    #[test]
    fn pauses_grow_across_outages_and_a_success_resets_them() {
        let now = Instant::now();
        let mut destination = Destination::new(now);
        assert_eq!(destination.pause(now), None);
        for outages in 1..=20 {
            destination.outage(PAUSES, None, now);
            let doubled = PAUSES.first.saturating_mul(1 << (outages - 1));
            let expected = doubled.min(PAUSES.longest);
            let pause = destination.pause(now).unwrap();
            assert!(
                pause >= expected / 2 && pause <= expected * 3 / 2,
                "{outages}: {pause:?}"
            );
            assert_eq!(destination.allowed(), 1);
        }
        destination.success(now);
        assert_eq!((destination.pause(now), destination.allowed()), (None, 2));
        destination.outage(PAUSES, None, now);
        assert!(destination.pause(now).unwrap() <= PAUSES.first * 3 / 2);
    }

    #[test]
    fn retry_after_is_honoured_and_bounded() {
        let now = Instant::now();
        let mut destination = Destination::new(now);
        destination.outage(PAUSES, Some(Duration::from_secs(120)), now);
        let pause = destination.pause(now).unwrap();
        assert!((120..=132).contains(&pause.as_secs()), "{pause:?}");
        destination.outage(PAUSES, Some(Duration::MAX), now);
        assert!(destination.pause(now).unwrap() <= MAX_RETRY_AFTER * 11 / 10);
        destination.outage(PAUSES, Some(Duration::ZERO), now);
        assert!(
            destination.pause(now).is_some(),
            "a destination cannot ask for retries without backoff"
        );
    }

    #[test]
    fn what_was_out_gets_more_and_more_events() {
        let now = Instant::now();
        let mut destination = Destination::new(now);
        assert!(destination.is_over());
        destination.outage(PAUSES, None, now);
        let mut allowed = Vec::new();
        while !destination.is_over() {
            allowed.push(destination.allowed());
            destination.success(now);
        }
        assert_eq!(allowed[..5], [1, 2, 4, 8, 16]);
    }
}
