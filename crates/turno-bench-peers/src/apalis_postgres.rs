//! apalis on PostgreSQL.

use std::time::Duration;

use anyhow::Result;
use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};
use crate::postgres;
use crate::queries::query;

const LEFT: &str = query("apalis_postgres_left");
/// Poll interval of an idle worker without notifications.
const POLL: Duration = Duration::from_millis(10);
const CONNECTIONS: u32 = 20;

pub struct ApalisPostgres {
    plan: Plan,
    pool: PgPool,
    client: Client,
}

impl ApalisPostgres {
    /// Tasks are not marked as running: this saves an update, and a claim is enough.
    fn storage(&self) -> PostgresStorage<Item> {
        let config = Config::default()
            .queue("bench")
            .batch_size(self.plan.claim())
            .lock_tasks(false);
        PostgresStorage::new(&self.pool).with_config(config)
    }
}

impl Peer for ApalisPostgres {
    async fn open(plan: &Plan) -> Result<Self> {
        // Neither the test of a connection nor statement logging is free, and the log is not read.
        let options: PgConnectOptions = plan.store.parse()?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .test_before_acquire(false)
            .connect_with(options.disable_statement_logging())
            .await?;
        PostgresStorage::setup(&pool).await?;
        Ok(ApalisPostgres {
            plan: plan.clone(),
            pool,
            client: postgres::connect(&plan.store).await?,
        })
    }

    async fn push(&self, items: Vec<Item>) -> Result<()> {
        self.storage().push_bulk(items).await?;
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        postgres::count(&self.client, LEFT).await
    }

    /// Does not update statistics: its plans get worse with them (less than half the rate, one at a time).
    async fn settle(&self) -> Result<()> {
        Ok(self.client.batch_execute("checkpoint").await?)
    }

    async fn start(&self, tally: &Tally, stop: &CancellationToken) -> Result<Workers> {
        let mut workers = Workers::new();
        for number in 0..self.plan.workers() {
            let (storage, tally, stop) = (self.storage(), tally.clone(), stop.clone());
            let builder = WorkerBuilder::new(format!("worker-{number}"));
            if self.plan.mode == Mode::Latency {
                let backend = storage.with_pubsub();
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
        match self.plan.mode {
            Mode::Push => format!("push_bulk, {note}"),
            Mode::Drain | Mode::Single => format!("done jobs are kept, {note}"),
            Mode::Latency => format!("pubsub, {note}"),
        }
    }
}

async fn handle(_: Item, tally: Data<Tally>) -> Result<(), BoxDynError> {
    tally.handle(1);
    Ok(())
}

/// Signals apalis to stop at the end of the measurement.
async fn stopped(stop: CancellationToken) -> Result<(), WorkerError> {
    stop.cancelled().await;
    Ok(())
}
