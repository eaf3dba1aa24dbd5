//! Tables and latency under a steady load for many minutes, with and without a snapshot that another session holds.
//!
//! The load is all four operations in turn, on one database, at half of the rate that callers reach who wait for their operations.

mod mixed;
mod report;
mod sizes;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use turno::Turno;

use self::report::Minute;
use self::sizes::Sizes;
use crate::latency::CALLERS;
use crate::latency::open_loop::{self, Schedule};
use crate::operations::{Kind, Servers, Subject};
use crate::outbox::relay::Snapshot;
use crate::rate::Run;

/// The defaults of PostgreSQL for what keeps tables small and for checkpoints. The test servers have others.
const SETTINGS: [(&str, &str); 4] = [
    ("autovacuum", "on"),
    ("autovacuum_naptime", "1min"),
    ("max_wal_size", "1GB"),
    ("checkpoint_timeout", "5min"),
];
/// Share of the maximal rate.
const SHARE: f64 = 0.5;
const MINUTE: Duration = Duration::from_secs(60);

pub struct Bench {
    /// Duration of each run.
    pub minutes: u32,
    /// Duration of the measurement of the maximal rate.
    pub seconds: f64,
    /// One operation only, not all in turn.
    pub operation: Option<Kind>,
}

/// What another session does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    Nothing,
    HoldsSnapshot,
}

impl Other {
    fn name(self) -> &'static str {
        match self {
            Other::Nothing => "no snapshot",
            Other::HoldsSnapshot => "a snapshot held open",
        }
    }
}

impl Bench {
    pub async fn run(&self) -> Result<()> {
        ensure!(self.minutes > 0, "--minutes is at least 1");
        let servers = Servers::postgres_with(&SETTINGS)?;
        let url = servers.postgres.create_database();
        let subject = self.open(&url).await?;
        let max_rate = subject
            .closed_loop(CALLERS, &Run::new(self.seconds))
            .await?;
        subject.operation.close().await?;
        let rate = max_rate * SHARE;
        println!("{CALLERS} callers that wait: {max_rate:.0} operations/s; the load: {rate:.0}");
        let mut runs = Vec::new();
        for other in [Other::Nothing, Other::HoldsSnapshot] {
            let minutes = self.load(&servers, rate, other).await;
            runs.push((other.name(), minutes.with_context(|| other.name())?));
        }
        report::print(&self.kinds(), &runs);
        Ok(())
    }

    fn kinds(&self) -> Vec<Kind> {
        self.operation.map_or(Kind::ALL.to_vec(), |only| vec![only])
    }

    async fn open(&self, url: &str) -> Result<Subject> {
        mixed::open(&self.kinds(), url).await
    }

    /// Runs the load on a new database, and returns its minutes.
    async fn load(&self, servers: &Servers, rate: f64, other: Other) -> Result<Vec<Minute>> {
        let url = servers.postgres.create_database();
        let subject = self.open(&url).await?;
        let snapshot = match other {
            Other::Nothing => None,
            Other::HoldsSnapshot => Some(Snapshot::hold(&url).await?),
        };
        let stop = CancellationToken::new();
        let turno = Turno::connect(&url).await?;
        // As a server does.
        let sweeper = tokio::spawn(turno.sweeper().run(stop.clone().cancelled_owned()));
        let kinds = self.kinds();
        report::heading(other.name(), &kinds);
        let mut minutes = Vec::new();
        for _ in 0..self.minutes {
            minutes.push(Minute::new(kinds.len())?);
        }
        let minutes = Arc::new(Mutex::new(minutes));
        let sizes = Sizes::connect(&url).await?;
        let reader = AbortOnDropHandle::new(tokio::spawn(read_sizes(sizes, minutes.clone())));
        let schedule = Schedule::steady(rate, MINUTE * self.minutes);
        let record = |ended: open_loop::Ended| {
            let mut minutes = minutes.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (ended.since.as_secs() / MINUTE.as_secs()) as usize;
            if let Some(minute) = minutes.get_mut(at) {
                minute.record(mixed::place(ended.number, kinds.len()), ended.took);
            }
        };
        open_loop::run(&subject, &schedule, record).await?;
        reader.await??;
        if let Some(snapshot) = snapshot {
            ensure!(snapshot.is_held(), "the snapshot was not held");
        }
        stop.cancel();
        sweeper.await?;
        turno.close().await;
        subject.operation.close().await?;
        let minutes = Arc::into_inner(minutes).context("the reader has ended")?;
        Ok(minutes.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads the sizes at the end of each minute, and prints it.
async fn read_sizes(sizes: Sizes, minutes: Arc<Mutex<Vec<Minute>>>) -> Result<()> {
    let began = Instant::now();
    let count = minutes.lock().unwrap_or_else(PoisonError::into_inner).len();
    for at in 0..count {
        sleep_until(began + MINUTE * (at as u32 + 1)).await;
        let tables = sizes.read().await?;
        let mut minutes = minutes.lock().unwrap_or_else(PoisonError::into_inner);
        minutes[at].tables = tables;
        report::line(at + 1, &minutes[at]);
    }
    Ok(())
}
