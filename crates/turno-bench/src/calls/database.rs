//! The database of one subject, and what is read from it while its loads are paused.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};
use turno::Turno;
use turno_testkit::PostgresServer;

use super::Inside;
use super::pgbench::Load;
use super::subjects::Rows;
use crate::queries::query;

/// Longest time for connections to open, and for statements to end.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Connections by which Turno's rows are made.
const MAKERS: usize = 4;

/// Creates a database with Turno and the tables of the bare statements, and returns its URL.
pub async fn template(server: &PostgresServer, counts: bool) -> Result<String> {
    let url = server.create_database();
    Turno::connect(&url).await?.close().await;
    let (owner, connection) = connect(&url).await?;
    owner.batch_execute(query("calls_create")).await?;
    owner.batch_execute("vacuum analyze").await?;
    drop(owner);
    connection.await??;
    if counts {
        let (superuser, connection) = connect(&server.superuser_url(name(&url)?)).await?;
        let create = "create extension pg_stat_statements";
        superuser.batch_execute(create).await?;
        drop(superuser);
        connection.await??;
    }
    Ok(url)
}

/// A copy of the template. It is not dropped before the server is: that would wait for a checkpoint.
pub struct Database {
    pub url: String,
    pub superuser_url: String,
    admin: Client,
}

impl Database {
    pub async fn copy(server: &PostgresServer, template: &str) -> Result<Self> {
        let url = server.copy_database(template);
        let superuser_url = server.superuser_url(name(&url)?);
        let (admin, _) = connect(&superuser_url).await?;
        admin.batch_execute("set synchronous_commit = off").await?;
        Ok(Database {
            url,
            superuser_url,
            admin,
        })
    }

    /// Prepares the rows for this many calls of each variant.
    pub async fn fill(&self, rows: Rows, calls: usize) -> Result<()> {
        let (fill, rows, make) = match rows {
            Rows::Fixed { fill, rows } => (fill, rows, None),
            Rows::PerCall { fill, make } => (fill, calls, make),
        };
        let fill = fill.replace(":rows", &rows.to_string());
        self.admin.batch_execute(&fill).await?;
        if let Some(script) = make {
            let load = Load {
                script,
                url: &self.url,
                connections: MAKERS,
                name: "make",
            };
            // Half as many: bare statements are faster, and rows that are made by calls take time.
            load.run(rows / MAKERS / 2, 0, "-c synchronous_commit=off")?;
        }
        // One by one: a vacuum cannot be in a transaction with another statement.
        for vacuum in query("calls_vacuum").split_inclusive(';') {
            self.admin.batch_execute(vacuum).await?;
        }
        Ok(())
    }

    /// Waits until a load has all of its connections.
    pub async fn connected(&self, load: &str, connections: usize) -> Result<()> {
        let started = Instant::now();
        while self.backends(load).await?.len() < connections {
            if started.elapsed() > TIMEOUT {
                bail!("pgbench has not opened {connections} connections");
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Waits until the statements of a paused load have ended.
    pub async fn idle(&self, load: &str) -> Result<()> {
        let started = Instant::now();
        while self.backends(load).await?.iter().any(|(_, active)| *active) {
            if started.elapsed() > TIMEOUT {
                bail!("a statement of {load} has not ended");
            }
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Processes of the connections of a load, and whether each one executes a statement.
    async fn backends(&self, load: &str) -> Result<Vec<(i32, bool)>> {
        let rows = self.admin.query(query("calls_backends"), &[&load]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Processor time of the connections of a load. The kernel counts it in nanoseconds here, and in ticks of 10 ms in
    /// `/proc/PID/stat`, which is too coarse for 32 processes and a short turn. Processes that work for all connections (WAL
    /// writer, checkpointer) do not count.
    pub async fn cpu_seconds(&self, load: &str) -> Result<f64> {
        let mut nanoseconds = 0.0;
        for (pid, _) in self.backends(load).await? {
            let file = format!("/proc/{pid}/schedstat");
            let text = fs::read_to_string(&file).with_context(|| format!("no {file}"))?;
            let time = text.split(' ').next().unwrap_or_default();
            nanoseconds += time
                .parse::<f64>()
                .with_context(|| format!("{file}: {text}"))?;
        }
        Ok(nanoseconds / 1e9)
    }

    pub async fn wal(&self) -> Result<f64> {
        Ok(self.admin.query_one(query("calls_wal"), &[]).await?.get(0))
    }

    pub async fn reset_counts(&self) -> Result<()> {
        let reset = "select pg_stat_statements_reset()";
        self.admin.batch_execute(reset).await?;
        Ok(())
    }

    /// All statements since the last reset, and their buffers.
    pub async fn counts(&self) -> Result<Inside> {
        let row = self.admin.query_one(query("calls_statements"), &[]).await?;
        Ok(Inside {
            statements: row.get(0),
            buffers: row.get(1),
        })
    }
}

type Connection = JoinHandle<Result<(), tokio_postgres::Error>>;

async fn connect(url: &str) -> Result<(Client, Connection)> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    Ok((client, tokio::spawn(connection)))
}

/// Name of the database of a URL.
fn name(url: &str) -> Result<&str> {
    let (_, name) = url.rsplit_once('/').context("a URL names its database")?;
    Ok(name)
}
