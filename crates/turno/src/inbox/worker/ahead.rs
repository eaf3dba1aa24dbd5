//! How many items a worker claims ahead of those in handlers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much work of the handlers is claimed ahead: long compared with a call of the store, short for an urgent item that comes later.
const WORK: Duration = Duration::from_millis(20);
/// Largest number claimed ahead, unless the concurrency is larger or the caller has set one. These items wait for the end of the lease
/// if the process is killed.
const MOST: usize = 100;
/// Share of the last handler in the average, as a power of two.
const SHARE: u32 = 4;

/// Number of items to claim ahead: the caller's, or as many as the handlers finish in [`WORK`].
#[derive(Debug)]
pub(super) struct Ahead {
    concurrency: usize,
    fixed: Option<usize>,
    /// Moving average of the durations of handlers, in ns; 0 before the first one has ended.
    average: AtomicU64,
}

impl Ahead {
    pub(super) fn new(concurrency: usize, fixed: Option<usize>) -> Self {
        Ahead {
            concurrency,
            fixed,
            average: AtomicU64::new(0),
        }
    }

    /// Records the duration of a handler. A lost update of two handlers at once does no harm.
    pub(super) fn record(&self, duration: Duration) {
        let last = u64::try_from(duration.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let average = match self.average.load(Ordering::Relaxed) {
            0 => last,
            average => average - (average >> SHARE) + (last >> SHARE),
        };
        self.average.store(average.max(1), Ordering::Relaxed);
    }

    /// Returns how many items there may be in flight: in handlers, and ahead of them.
    pub(super) fn capacity(&self) -> usize {
        self.concurrency + self.fixed.unwrap_or_else(|| self.by_duration())
    }

    fn by_duration(&self) -> usize {
        let average = match self.average.load(Ordering::Relaxed) {
            0 => return self.concurrency,
            average => u128::from(average),
        };
        let each = usize::try_from(WORK.as_nanos() / average).unwrap_or(MOST);
        self.concurrency
            .saturating_mul(each)
            .clamp(self.concurrency, self.concurrency.max(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capacity after many handlers of one duration.
    fn capacity(concurrency: usize, fixed: Option<usize>, duration: Duration) -> usize {
        let ahead = Ahead::new(concurrency, fixed);
        (0..100).for_each(|_| ahead.record(duration));
        ahead.capacity()
    }

    #[test]
    fn short_handlers_have_more_ahead() {
        let micros = Duration::from_micros;
        assert_eq!(capacity(1, None, micros(1)), 101);
        assert_eq!(capacity(1, None, micros(1000)), 21);
        assert_eq!(capacity(1, None, micros(10_000)), 3);
        assert_eq!(capacity(1, None, micros(1_000_000)), 2);
        assert_eq!(capacity(16, None, micros(1000)), 116);
        assert_eq!(capacity(16, None, micros(1_000_000)), 32);
        assert_eq!(capacity(200, None, micros(1)), 400);
        assert_eq!(capacity(1, None, Duration::ZERO), 101);
        assert_eq!(capacity(1, None, Duration::MAX), 2);
    }

    /// A number that the caller has set does not change.
    #[test]
    fn a_fixed_number_stays() {
        assert_eq!(capacity(4, Some(0), Duration::from_micros(1)), 4);
        assert_eq!(capacity(1, Some(500), Duration::from_secs(1)), 501);
    }

    #[test]
    fn it_follows_a_change() {
        let ahead = Ahead::new(1, None);
        assert_eq!(ahead.capacity(), 2);
        (0..100).for_each(|_| ahead.record(Duration::from_micros(1)));
        assert_eq!(ahead.capacity(), 101);
        ahead.record(Duration::from_secs(1));
        assert_eq!(ahead.capacity(), 2);
        (0..200).for_each(|_| ahead.record(Duration::from_micros(1)));
        assert_eq!(ahead.capacity(), 101);
    }
}
