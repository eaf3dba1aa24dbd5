//! Latency under load, with a fixed schedule of arrivals (open loop).
//!
//! The maximal rate of each operation is measured with callers that wait for their operation (closed loop). Then the operation runs
//! at shares of that rate.

pub mod open_loop;
mod report;

use anyhow::{Context, Result};

use self::open_loop::{Ended, Schedule, Times};
use self::report::{Level, Measured};
use crate::operations::{Kind, Servers, Subject};
use crate::rate::Run;

/// Callers of the closed loop, each with one operation at a time.
pub const CALLERS: usize = 64;
/// Shares of the maximal rate.
const SHARES: [f64; 2] = [0.5, 0.8];

pub struct Bench {
    /// Duration of each measurement.
    pub seconds: f64,
    /// Number of measurements of each rate. Their times count together.
    pub rounds: usize,
    pub operation: Option<Kind>,
}

impl Bench {
    pub async fn run(&self) -> Result<()> {
        let kinds: Vec<Kind> = Kind::ALL
            .into_iter()
            .filter(|kind| self.operation.is_none_or(|only| only == *kind))
            .collect();
        let servers = Servers::start(&kinds)?;
        for kind in kinds {
            let (mut peer, mut turno) = (Measured::default(), Measured::default());
            // Alternate the measurements, because the speed of a machine varies over time.
            for _ in 0..self.rounds {
                let subject = Subject::peer(kind, &servers).await?;
                self.measure(&subject, &mut peer).await?;
                let subject = Subject::turno(kind, &servers).await?;
                self.measure(&subject, &mut turno).await?;
            }
            report::print(kind, &peer, &turno);
        }
        Ok(())
    }

    /// Measures the maximal rate of a subject, and its latency at the shares of that.
    async fn measure(&self, subject: &Subject, measured: &mut Measured) -> Result<()> {
        measured.name = subject.name;
        let run = Run::new(self.seconds);
        let max_rate = subject.closed_loop(CALLERS, &run).await;
        let max_rate = max_rate.with_context(|| format!("{}, closed loop", subject.name))?;
        measured.max_rates.push(max_rate);
        for (at, share) in SHARES.into_iter().enumerate() {
            let schedule = Schedule::new(max_rate * share, self.seconds);
            let mut times = Times::new()?;
            let record = |ended: Ended| times.record(ended.took);
            let ran = open_loop::run(subject, &schedule, record).await;
            let lateness =
                ran.with_context(|| format!("{} at {share} of the maximum", subject.name))?;
            times.lateness(&lateness)?;
            match measured.levels.get_mut(at) {
                Some(level) => level.add(schedule.per_second, &times)?,
                None => measured
                    .levels
                    .push(Level::new(share, schedule.per_second, times)),
            }
        }
        subject.operation.close().await
    }
}
