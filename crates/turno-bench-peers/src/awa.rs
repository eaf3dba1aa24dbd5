//! awa, with its queue storage.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use awa::model::{QueueStorage, QueueStorageConfig, insert, migrations};
use awa::{Client, InsertOpts, JobArgs, JobError, JobResult, QueueConfig};
use serde::{Deserialize, Serialize};
use sqlx_awa::PgPool;
use sqlx_awa::postgres::PgPoolOptions;
use tokio_util::sync::CancellationToken;

use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};
use crate::postgres;

const QUEUE: &str = "bench";
/// At least four per queue and twenty more, as its benchmarking notes say.
const CONNECTIONS: u32 = 40;
/// Concurrent handlers of a drain: as many as its default batch of claims.
const HANDLERS: u32 = 512;
/// Poll interval without notifications, as in its benchmarks.
const POLL: Duration = Duration::from_millis(50);
/// Interval in which the partitions of its tables are rotated: its default.
const ROTATE: Duration = Duration::from_secs(1);
const SHUTDOWN: Duration = Duration::from_secs(5);

#[derive(Serialize, Deserialize, JobArgs)]
#[serde(transparent)]
struct Job {
    item: Item,
}

pub struct Awa {
    plan: Plan,
    pool: PgPool,
    storage: QueueStorage,
    pushed: AtomicU64,
    client: tokio_postgres::Client,
}

impl Peer for Awa {
    async fn open(plan: &Plan) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .test_before_acquire(false)
            .connect(&plan.store)
            .await?;
        migrations::run(&pool).await?;
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        storage.install(&pool).await?;
        Ok(Awa {
            plan: plan.clone(),
            pool,
            storage,
            pushed: AtomicU64::new(0),
            client: postgres::connect(&plan.store).await?,
        })
    }

    async fn push(&self, items: Vec<Item>) -> Result<()> {
        let options = InsertOpts {
            queue: QUEUE.to_owned(),
            ..Default::default()
        };
        let jobs = items
            .into_iter()
            .map(|item| insert::params_with(&Job { item }, options.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let stored = self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        ensure!(stored == jobs.len(), "{stored} of {} stored", jobs.len());
        self.pushed.fetch_add(stored as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Its own exact count of ended jobs, because a completion is a row for a whole batch of them.
    async fn left(&self) -> Result<u64> {
        let counts = self.storage.queue_counts(&self.pool, QUEUE).await?;
        let pushed = self.pushed.load(Ordering::Relaxed);
        pushed
            .checked_sub(counts.terminal.try_into()?)
            .context("more jobs ended than were pushed")
    }

    async fn settle(&self) -> Result<()> {
        postgres::settle(&self.client).await
    }

    async fn start(&self, tally: &Tally, stop: &CancellationToken) -> Result<Workers> {
        // One client for all consumers: with one for each, an idle one waits for its next poll, which was slower.
        let config = QueueConfig {
            max_workers: match self.plan.mode {
                Mode::Push | Mode::Drain => HANDLERS,
                Mode::Single | Mode::Latency => self.plan.workers().try_into()?,
            },
            claim_batch_size: self.plan.claim(),
            poll_interval: POLL,
            // Without deadlines, a claim is one row for a whole batch.
            deadline_duration: Duration::ZERO,
            ..Default::default()
        };
        let (tally, stop) = (tally.clone(), stop.clone());
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, config)
            .queue_storage(QueueStorageConfig::default(), ROTATE, ROTATE)
            .register::<Job, _, _>(move |_, _| {
                tally.handle(1);
                std::future::ready(Ok::<_, JobError>(JobResult::Completed))
            })
            .build()?;
        client.start().await?;
        let mut workers = Workers::new();
        workers.spawn(async move {
            stop.cancelled().await;
            client.shutdown(SHUTDOWN).await;
            Ok(())
        });
        Ok(workers)
    }

    fn note(&self) -> String {
        let note = self.plan.note();
        match self.plan.mode {
            Mode::Push => format!("enqueue_params_copy, {note}"),
            Mode::Drain => format!(
                "no deadlines, claims of {}, {HANDLERS} handlers, completions gathered",
                self.plan.claim()
            ),
            Mode::Single => format!("no deadlines, claims of 1, completions gathered, {note}"),
            Mode::Latency => format!("notify, {note}"),
        }
    }

    async fn close(self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}
