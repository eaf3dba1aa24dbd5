//! effectum: one process, one writer thread that commits up to 50 operations in one transaction.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use effectum::{Job, JobRunner, Queue, RunningJob, Worker};
use rusqlite::{Connection, OpenFlags};
use tokio_util::sync::CancellationToken;

use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};
use crate::queries::query;

const LEFT: &str = query("effectum_left");
const JOB: &str = "item";
/// How long closing waits for the workers.
const CLOSE: Duration = Duration::from_secs(30);

pub struct Effectum {
    plan: Plan,
    file: PathBuf,
    queue: Queue,
}

impl Peer for Effectum {
    async fn open(plan: &Plan) -> Result<Self> {
        let file = plan.store.strip_prefix("sqlite:");
        let file = Path::new(file.context("the store must be sqlite:FILE")?);
        Ok(Effectum {
            plan: plan.clone(),
            file: file.to_owned(),
            queue: Queue::new(file).await?,
        })
    }

    async fn push(&self, items: Vec<Item>) -> Result<()> {
        let jobs: effectum::Result<Vec<Job>> = items
            .iter()
            .map(|item| Ok(Job::builder(JOB).json_payload(item)?.build()))
            .collect();
        self.queue.add_jobs(jobs?).await?;
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let reader = Connection::open_with_flags(&self.file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        reader.busy_timeout(CLOSE)?;
        let left: i64 = reader.query_row(LEFT, [], |row| row.get(0))?;
        Ok(left.try_into()?)
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }

    async fn start(&self, tally: &Tally, stop: &CancellationToken) -> Result<Workers> {
        let claim: u16 = self.plan.claim().try_into()?;
        let mut workers = Workers::new();
        for _ in 0..self.plan.workers() {
            // A worker claims as many jobs as it may run concurrently, and claims more when half of them are done.
            let worker = Worker::builder(&self.queue, tally.clone())
                .max_concurrency(claim)
                .min_concurrency(claim.div_ceil(2))
                .jobs([JobRunner::builder(JOB, handle).build()])
                .build()
                .await?;
            let stop = stop.clone();
            workers.spawn(async move {
                stop.cancelled().await;
                Ok(worker.unregister(Some(CLOSE)).await?)
            });
        }
        Ok(workers)
    }

    fn note(&self) -> String {
        let completion = match self.plan.mode {
            Mode::Push => "add_jobs",
            Mode::Drain | Mode::Single | Mode::Latency => "done jobs are kept",
        };
        let note = self.plan.note();
        format!("rollback journal, synchronous normal (it has no setting), {completion}, {note}")
    }

    async fn close(self) -> Result<()> {
        Ok(self.queue.close(CLOSE).await?)
    }
}

async fn handle(job: RunningJob, tally: Tally) -> effectum::Result<()> {
    let _: Item = job.json_payload()?;
    tally.handle(1);
    Ok(())
}
