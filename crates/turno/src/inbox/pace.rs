//! How many items a worker's claims find.

use std::time::Duration;

use tokio::time::Instant;

/// The time over which the average is taken: claims that are older count for little.
const SPAN: Duration = Duration::from_millis(500);
/// From this rate on, in items per second, a worker claims at short intervals. To be woken that often costs more.
const HIGH: f64 = 200.0;
/// If nothing was found for this long, the load is over.
const SILENCE: Duration = Duration::from_millis(50);

/// A decaying average of the items that were found.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rate: f64,
    at: Option<Instant>,
}

impl Pace {
    /// Counts a claim that found items.
    pub(super) fn add(&mut self, items: usize, now: Instant) {
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        self.rate = self.rate(now) + f64::from(items) / SPAN.as_secs_f64();
        self.at = Some(now);
    }

    /// Returns whether there is a steady load.
    pub(super) fn is_high(&self, now: Instant) -> bool {
        self.rate(now) > HIGH
    }

    /// Returns whether the load is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| now - at > SILENCE)
    }

    /// Items per second.
    fn rate(&self, now: Instant) -> f64 {
        self.at.map_or(0.0, |at| {
            let age = (now - at).as_secs_f64();
            self.rate * (-age / SPAN.as_secs_f64()).exp()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pace after claims of so many items every `pause` for `total`, and when the last one was.
    fn steady(items: usize, pause: Duration, total: Duration) -> (Pace, Instant) {
        let mut pace = Pace::default();
        let begin = Instant::now();
        let mut at = begin;
        loop {
            pace.add(items, at);
            if at >= begin + total {
                return (pace, at);
            }
            at += pause;
        }
    }

    #[test]
    fn a_steady_load_is_high() {
        let two_seconds = Duration::from_secs(2);
        for (items, pause, is_high) in [
            (1, 3, true),
            (100, 300, true),
            (1, 10, false),
            (20, 200, false),
        ] {
            let (pace, at) = steady(items, Duration::from_millis(pause), two_seconds);
            assert_eq!(pace.is_high(at), is_high, "{items} every {pause} ms");
        }
    }

    #[test]
    fn a_load_is_over_soon_after_the_last_item() {
        let (pace, at) = steady(1, Duration::from_millis(3), Duration::from_secs(1));
        assert!(!pace.is_over(at + SILENCE));
        assert!(pace.is_over(at + SILENCE + Duration::from_millis(1)));
        assert!(Pace::default().is_over(at));
    }
}
