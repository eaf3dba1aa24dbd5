//! Counters of a PostgreSQL server.

use std::fs;
use std::ops::{Div, Sub};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::param::clock_ticks_per_second;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};
use turno_testkit::PostgresServer;

use crate::queries::query;

/// Longest time for the connections of a load to end.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The checkpointer publishes its counters shortly after a checkpoint has ended.
const PUBLISH_DELAY: Duration = Duration::from_millis(300);
/// First version that has the counters of the checkpointer in a view of their own.
const CHECKPOINTER_VIEW: i32 = 170_000;

/// Counters since the start of the server.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub wal_bytes: f64,
    /// Row versions that an update or a deletion made obsolete.
    pub dead_rows: f64,
    pub buffers_written: f64,
    /// Processor time of all of its processes.
    pub cpu_seconds: f64,
}

impl Reading {
    fn combined(self, other: Reading, operator: impl Fn(f64, f64) -> f64) -> Self {
        Reading {
            wal_bytes: operator(self.wal_bytes, other.wal_bytes),
            dead_rows: operator(self.dead_rows, other.dead_rows),
            buffers_written: operator(self.buffers_written, other.buffers_written),
            cpu_seconds: operator(self.cpu_seconds, other.cpu_seconds),
        }
    }
}

impl Sub for Reading {
    type Output = Reading;

    fn sub(self, other: Reading) -> Reading {
        self.combined(other, |value, other| value - other)
    }
}

impl Div<f64> for Reading {
    type Output = Reading;

    fn div(self, units: f64) -> Reading {
        self.combined(self, |value, _| value / units)
    }
}

pub struct Meter {
    admin: Client,
    /// Process that starts all others of the server.
    postmaster: u32,
    buffers: &'static str,
}

impl Meter {
    pub async fn open(server: &PostgresServer) -> Result<Self> {
        let (admin, connection) =
            tokio_postgres::connect(&server.superuser_url("postgres"), NoTls).await?;
        tokio::spawn(connection);
        let row = admin.query_one(query("units_server"), &[]).await?;
        let (process, version): (i32, i32) = (row.get(0), row.get(1));
        let process = Process::read(u32::try_from(process)?)?;
        let buffers = match version {
            CHECKPOINTER_VIEW.. => query("units_buffers_written"),
            _ => query("units_buffers_written_16"),
        };
        Ok(Meter {
            admin,
            postmaster: process.parent,
            buffers,
        })
    }

    /// Reads the counters after all other connections have ended, because a connection publishes its counters then, and after a
    /// checkpoint, which writes the buffers that were changed.
    pub async fn read(&self) -> Result<Reading> {
        let started = Instant::now();
        while self.count(query("units_connections")).await? > 0.0 {
            ensure!(started.elapsed() < TIMEOUT, "a connection has not ended");
            sleep(Duration::from_millis(10)).await;
        }
        let wal_bytes = self.count(query("calls_wal")).await?;
        self.admin.batch_execute("checkpoint").await?;
        sleep(PUBLISH_DELAY).await;
        Ok(Reading {
            wal_bytes,
            dead_rows: self.count(query("units_dead_rows")).await?,
            buffers_written: self.admin.query_one(self.buffers, &[]).await?.get(0),
            cpu_seconds: self.cpu_seconds()?,
        })
    }

    async fn count(&self, statement: &str) -> Result<f64> {
        Ok(self.admin.query_one(statement, &[]).await?.get(0))
    }

    /// Processor time of the server, with that of processes that have ended.
    fn cpu_seconds(&self) -> Result<f64> {
        let postmaster = Process::read(self.postmaster)?;
        let mut ticks = postmaster.ticks + postmaster.ticks_of_ended_children;
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process may end before its file is read.
            if let Ok(process) = Process::read(pid)
                && process.parent == self.postmaster
            {
                ticks += process.ticks;
            }
        }
        Ok(ticks as f64 / clock_ticks_per_second() as f64)
    }
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    ticks: u64,
    ticks_of_ended_children: u64,
}

impl Process {
    fn read(pid: u32) -> Result<Self> {
        let file = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&file).with_context(|| format!("no {file}"))?;
        Self::parse(&text).with_context(|| format!("{file}: {text}"))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program is in parentheses, and may have spaces.
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        // Numbers as in `man proc`, where the first field after the name is 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Process {
            parent: u32::try_from(number(4)?).ok()?,
            ticks: number(14)? + number(15)?,
            ticks_of_ended_children: number(16)? + number(17)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_times_of_a_process() {
        let text = "71 (postgres: a) b) S 70 71 71 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 1 0 5";
        let right = Process {
            parent: 70,
            ticks: 33,
            ticks_of_ended_children: 77,
        };
        assert_eq!(Process::parse(text), Some(right));
        assert_eq!(Process::parse("71 (postgres) S 70"), None);
    }
}
