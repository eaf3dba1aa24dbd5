//! apalis on SQLite.

use std::time::Duration;

use anyhow::Result;
use apalis::prelude::*;
use apalis_sqlite::callback::HookCallbackListener;
use apalis_sqlite::{Config, SqliteStorage};
use sqlx::ConnectOptions;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use tokio_util::sync::CancellationToken;

use crate::apalis_postgres::{handle, stopped};
use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};

const LEFT: &str = include_str!("apalis_sqlite/left.sql");
/// How often an idle worker looks when it is not told.
const POLL: Duration = Duration::from_millis(10);

pub struct ApalisSqlite {
    plan: Plan,
    pool: SqlitePool,
    listener: Option<HookCallbackListener>,
}

impl ApalisSqlite {
    /// Tasks are not marked as running: that is one update less, and a claim is enough.
    fn storage(&self) -> SqliteStorage<Item> {
        let config = Config::default()
            .queue("bench")
            .batch_size(self.plan.claim())
            .lock_tasks(false);
        SqliteStorage::new(&self.pool).with_config(config)
    }
}

impl Peer for ApalisSqlite {
    async fn open(plan: &Plan) -> Result<Self> {
        let options: SqliteConnectOptions = plan.store.parse()?;
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(30))
            .disable_statement_logging();
        // The setup turns syncing off for the connection that it uses, so that one is thrown away.
        let setup = SqlitePool::connect_with(options.clone()).await?;
        SqliteStorage::setup(&setup).await?;
        setup.close().await;
        let (pool, listener) = if plan.mode == Mode::Latency {
            let (pool, listener) = SqliteStorage::connect_with_callback(&plan.store)?;
            (pool, Some(listener))
        } else {
            // SQLite has one writer: a second connection would only wait for the first.
            let one = SqlitePoolOptions::new().max_connections(1);
            (one.connect_with(options).await?, None)
        };
        Ok(ApalisSqlite {
            plan: plan.clone(),
            pool,
            listener,
        })
    }

    async fn push(&self, items: Vec<Item>) -> Result<()> {
        self.storage().push_bulk(items).await?;
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let left: i64 = sqlx::query_scalar(LEFT).fetch_one(&self.pool).await?;
        Ok(left.try_into()?)
    }

    async fn settle(&self) -> Result<()> {
        sqlx::query("pragma wal_checkpoint(truncate)")
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    async fn start(&self, tally: &Tally, stop: &CancellationToken) -> Result<Workers> {
        let mut workers = Workers::new();
        for number in 0..self.plan.workers() {
            let (storage, tally, stop) = (self.storage(), tally.clone(), stop.clone());
            let builder = WorkerBuilder::new(format!("worker-{number}"));
            if let Some(listener) = self.listener.clone() {
                let backend = storage.with_callback(listener);
                let worker = builder.backend(backend).data(tally).build(handle);
                workers.spawn(async move { Ok(worker.run_until(stopped(stop)).await?) });
            } else {
                let backend = storage.poll_with_interval(POLL);
                let worker = builder.backend(backend).data(tally).build(handle);
                workers.spawn(async move { Ok(worker.run_until(stopped(stop)).await?) });
            }
        }
        Ok(workers)
    }

    fn note(&self) -> String {
        let note = self.plan.note();
        let told = match self.plan.mode {
            Mode::Push => "push_bulk",
            Mode::Drain | Mode::Single => "done jobs are kept",
            Mode::Latency => "update hook",
        };
        format!("WAL, synchronous full, {told}, {note}")
    }
}
