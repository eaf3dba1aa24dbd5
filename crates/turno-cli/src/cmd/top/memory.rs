//! Values that are kept between polls: throughput, and the length of leases.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use turno::lock::LockHolder;

use super::poller::Snapshot;

/// Number of polls that are kept: about one minute.
const MAX_SAMPLES: usize = 61;
/// Time over which a rate is averaged.
const WINDOW: Duration = Duration::from_secs(10);
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Key of a holder: resource, owner and token.
type Holding = (String, String, i64);

#[derive(Debug, Default)]
pub(super) struct Memory {
    leases: HashMap<Holding, Lease>,
    queues: HashMap<String, Count>,
    outbox: Count,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    expires_at: Timestamp,
    whole: Duration,
}

impl Memory {
    pub(super) fn record(&mut self, snapshot: &Snapshot) {
        let mut leases = HashMap::with_capacity(snapshot.overview.locks.len());
        for lock in &snapshot.overview.locks {
            let holding = holding(lock);
            let lease = lease(lock, self.leases.get(&holding));
            leases.insert(holding, lease);
        }
        self.leases = leases;
        let mut queues = HashMap::with_capacity(snapshot.overview.queues.len());
        for stats in &snapshot.overview.queues {
            let mut count = self.queues.remove(&stats.queue).unwrap_or_default();
            count.add(snapshot.at, stats.completed);
            queues.insert(stats.queue.clone(), count);
        }
        self.queues = queues;
        if let Some(stats) = &snapshot.overview.outbox {
            self.outbox.add(snapshot.at, stats.dispatched);
        }
    }

    /// Returns the length of a lease when it was new.
    pub(super) fn whole(&self, lock: &LockHolder) -> Duration {
        let known = self.leases.get(&holding(lock));
        known.map_or_else(|| since_acquired(lock), |lease| lease.whole)
    }

    /// Returns the completed items of a queue.
    pub(super) fn queue(&self, queue: &str) -> Option<&Count> {
        self.queues.get(queue)
    }

    /// Returns the dispatched events.
    pub(super) fn outbox(&self) -> &Count {
        &self.outbox
    }
}

fn holding(lock: &LockHolder) -> Holding {
    (lock.resource.clone(), lock.owner.clone(), lock.token.0)
}

/// A lease is as long as its remaining time when this expiry was new. For a lock that is older than this process, it is the
/// time from acquisition to expiry.
fn lease(lock: &LockHolder, old: Option<&Lease>) -> Lease {
    let whole = match old {
        Some(old) if old.expires_at == lock.expires_at => old.whole,
        Some(_) => lock.remaining,
        None => since_acquired(lock),
    };
    Lease {
        expires_at: lock.expires_at,
        whole,
    }
}

fn since_acquired(lock: &LockHolder) -> Duration {
    let whole = lock.expires_at.duration_since(lock.acquired_at);
    Duration::try_from(whole).unwrap_or_default()
}

/// A growing number, sampled at each poll.
#[derive(Debug, Default)]
pub(super) struct Count(VecDeque<(Instant, u64)>);

impl Count {
    fn add(&mut self, at: Instant, count: u64) {
        self.0.push_back((at, count));
        while self.0.len() > MAX_SAMPLES {
            self.0.pop_front();
        }
    }

    /// Returns the growth per second; `None` until it is known.
    pub(super) fn rate(&self) -> Option<f64> {
        let (last_at, last) = *self.0.back()?;
        let mut recent = self.0.iter();
        let first = recent.find(|(at, _)| last_at.duration_since(*at) <= WINDOW)?;
        let seconds = last_at.duration_since(first.0).as_secs_f64();
        (seconds > 0.0).then(|| last.saturating_sub(first.1) as f64 / seconds)
    }

    /// Plots the growth from poll to poll, newest last. The highest step is the fastest.
    pub(super) fn plot(&self, width: usize) -> String {
        let speeds = self.0.iter().zip(self.0.iter().skip(1));
        let speeds = speeds.map(|(before, after)| {
            let seconds = after.0.duration_since(before.0).as_secs_f64();
            after.1.saturating_sub(before.1) as f64 / seconds.max(0.001)
        });
        let speeds: Vec<f64> = speeds.collect();
        let speeds = &speeds[speeds.len().saturating_sub(width)..];
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        let step = |speed: &f64| match fastest > 0.0 {
            // A fraction of 1 is the last step.
            true => STEPS[(speed / fastest * 7.0).round() as usize],
            false => STEPS[0],
        };
        speeds.iter().map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let begin = Instant::now();
        let mut count = Count::default();
        assert_eq!(count.rate(), None);
        count.add(begin, 5);
        assert_eq!(count.rate(), None, "one sample has no rate");
        for second in 1..=20 {
            let faster = if second > 10 { 3 * (second - 10) } else { 0 };
            count.add(begin + Duration::from_secs(second), 5 + faster);
        }
        assert_eq!(count.rate(), Some(3.0));
        assert_eq!(count.plot(4), "████");
        assert_eq!(
            count.plot(100),
            format!("{}{}", "▁".repeat(10), "█".repeat(10))
        );
    }

    #[test]
    fn the_number_of_samples_is_limited() {
        let mut count = Count::default();
        let begin = Instant::now();
        for sample in 0..1000 {
            count.add(begin, sample);
        }
        assert_eq!(count.0.len(), MAX_SAMPLES);
        assert_eq!(count.rate(), None, "no time has passed");
    }
}
