//! A fixed schedule of arrivals, and the times that they take.
//!
//! Each arrival has an intended time, and its latency counts from there. If the operations stall, arrivals do not wait for them, and
//! all that should have begun during the stall have it in their latency. A closed loop would leave them out (coordinated omission).

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::operations::Subject;

/// Longest latency that is recorded exactly, in microseconds.
const MAX_MICROSECONDS: u64 = 600_000_000;
/// Significant digits of recorded times.
const DIGITS: u8 = 3;
/// Time without the end of any operation after which they count as stuck.
const STUCK: Duration = Duration::from_secs(60);

/// When operations begin: at equal intervals.
#[derive(Clone, Copy)]
pub struct Schedule {
    pub per_second: f64,
    /// Arrivals of this time do not count.
    warm_up: Duration,
    /// Duration after the warm-up.
    counted: Duration,
}

impl Schedule {
    /// The warm-up comes before the duration, and is a fifth of it.
    pub fn new(per_second: f64, seconds: f64) -> Self {
        Schedule {
            per_second,
            warm_up: Duration::from_secs_f64(seconds / 5.0),
            counted: Duration::from_secs_f64(seconds),
        }
    }

    /// Without a warm-up.
    pub fn steady(per_second: f64, counted: Duration) -> Self {
        Schedule {
            per_second,
            warm_up: Duration::ZERO,
            counted,
        }
    }

    fn arrivals(&self) -> u64 {
        ((self.warm_up + self.counted).as_secs_f64() * self.per_second) as u64
    }

    /// Intended time of an arrival, since the begin.
    fn intended(&self, arrival: u64) -> Duration {
        Duration::from_secs_f64(arrival as f64 / self.per_second)
    }
}

/// An operation that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub number: u64,
    /// Its intended time, since the warm-up.
    pub since: Duration,
    /// Its latency, since that time.
    pub took: Duration,
}

/// Runs a subject by a schedule. `record` gets each operation that counts. Returns how late the load itself was.
pub async fn run(
    subject: &Subject,
    schedule: &Schedule,
    mut record: impl FnMut(Ended),
) -> Result<Histogram<u64>> {
    let (sender, mut ends) = mpsc::unbounded_channel();
    let (subject, schedule, runtime) = (subject.clone(), *schedule, Handle::current());
    // On a thread of its own: the timers of tokio have a resolution of one millisecond.
    let load = spawn_blocking(move || {
        let mut lateness = histogram()?;
        let began = Instant::now();
        for arrival in 0..schedule.arrivals() {
            let since = schedule.intended(arrival);
            let at = began + since;
            thread::sleep(at.saturating_duration_since(Instant::now()));
            lateness.saturating_record(microseconds(at.elapsed()));
            let (subject, sender) = (subject.clone(), sender.clone());
            runtime.spawn(async move {
                let number = subject.next_number();
                let ended = subject.operation.run(number).await;
                let took = ended.map(|ended| ended.saturating_duration_since(at));
                // The receiver has gone if another operation had an error.
                let _ = sender.send((number, since, took));
            });
        }
        anyhow::Ok(lateness)
    });
    loop {
        let end = timeout(STUCK, ends.recv()).await;
        let Some((number, since, took)) = end.context("no operation ended for a minute")? else {
            break;
        };
        let took = took?;
        if let Some(since) = since.checked_sub(schedule.warm_up) {
            record(Ended {
                number,
                since,
                took,
            });
        }
    }
    load.await?
}

/// Latencies, and how late the load itself was.
pub struct Times {
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
}

impl Times {
    pub fn new() -> Result<Self> {
        Ok(Times {
            latency: histogram()?,
            lateness: histogram()?,
        })
    }

    pub fn record(&mut self, latency: Duration) {
        self.latency.saturating_record(microseconds(latency));
    }

    pub fn lateness(&mut self, lateness: &Histogram<u64>) -> Result<()> {
        self.lateness.add(lateness)?;
        Ok(())
    }

    pub fn add(&mut self, other: &Times) -> Result<()> {
        self.latency.add(&other.latency)?;
        self.lateness(&other.lateness)
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.latency.len()
    }

    /// The latency that this share of operations does not exceed, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1000.0
    }

    /// The same of the load: how long after its intended time an arrival was started.
    pub fn lateness_ms(&self, share: f64) -> f64 {
        self.lateness.value_at_quantile(share) as f64 / 1000.0
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(MAX_MICROSECONDS, DIGITS)?)
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::operations::Operation;

    /// An operation that stalls once: all that begin before `until` end then.
    struct Stall {
        until: Mutex<Option<Instant>>,
    }

    #[async_trait]
    impl Operation for Stall {
        async fn run(&self, _: u64) -> Result<Instant> {
            let until = *self
                .until
                .lock()
                .unwrap()
                .get_or_insert_with(|| Instant::now() + Duration::from_millis(500));
            tokio::time::sleep_until(until.into()).await;
            Ok(Instant::now())
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stall_counts_for_all_arrivals_behind_it() {
        let stall = Stall {
            until: Mutex::new(None),
        };
        let subject = Subject::new("stall", stall);
        let mut times = Times::new().unwrap();
        // 100 arrivals in one second, of which the first half finds a stall.
        let schedule = Schedule::steady(100.0, Duration::from_secs(1));
        let record = |ended: Ended| times.record(ended.took);
        let lateness = run(&subject, &schedule, record).await.unwrap();
        assert_eq!((times.count(), lateness.len()), (100, 100));
        // A quarter of all had at least half of the stall before them. A closed loop has one slow operation.
        assert!(times.quantile_ms(0.75) >= 240.0);
        assert!(times.quantile_ms(0.25) < 240.0);
    }
}
