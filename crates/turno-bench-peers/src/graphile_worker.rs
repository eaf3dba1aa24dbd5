//! graphile_worker, on its tokio-postgres driver.

use std::time::Duration;

use anyhow::Result;
use graphile_worker::tokio_postgres::TokioPostgresDatabase;
use graphile_worker::{
    Database, IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler,
    WorkerContext, WorkerOptions, WorkerShutdownConfig, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};
use crate::postgres;
use crate::queries::query;

const SCHEMA: &str = "graphile_worker";
/// Completed jobs are deleted.
const LEFT: &str = query("graphile_worker_left");
/// The best of the settings tried with batches: jobs per fetch, concurrent handlers, and how long completions are collected.
const FETCH: usize = 5000;
const HANDLERS: usize = 500;
const GATHER: Duration = Duration::from_millis(5);
const CONNECTIONS: usize = 20;

pub struct GraphileWorker {
    plan: Plan,
    database: Database,
    utils: WorkerUtils,
    client: Client,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Job(Item);

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "item";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let Some(tally) = context.get_ext::<Tally>() else {
            return Err("the tally is missing");
        };
        tally.handle(1);
        Ok(())
    }
}

impl Peer for GraphileWorker {
    async fn open(plan: &Plan) -> Result<Self> {
        let database: Database = TokioPostgresDatabase::from_url(&plan.store, CONNECTIONS)?.into();
        let utils = WorkerUtils::new(database.clone(), SCHEMA);
        utils.migrate().await?;
        Ok(GraphileWorker {
            plan: plan.clone(),
            database,
            utils,
            client: postgres::connect(&plan.store).await?,
        })
    }

    async fn push(&self, items: Vec<Item>) -> Result<()> {
        let jobs = items.iter().map(job).collect::<Result<Vec<_>>>()?;
        self.utils.add_raw_jobs(&jobs).await?;
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        postgres::count(&self.client, LEFT).await
    }

    async fn settle(&self) -> Result<()> {
        postgres::settle(&self.client).await
    }

    async fn start(&self, tally: &Tally, stop: &CancellationToken) -> Result<Workers> {
        let mut workers = Workers::new();
        match self.plan.mode {
            Mode::Push | Mode::Drain => {
                let worker = self
                    .options(tally, stop)
                    .concurrency(HANDLERS)
                    .complete_job_batch_delay(GATHER)
                    .local_queue(LocalQueueConfig::default().with_size(FETCH))
                    .init()
                    .await?;
                workers.spawn(async move { Ok(worker.run().await?) });
            }
            // `run` takes one job per notification or poll; only `run_once` continues while there are jobs.
            Mode::Single => {
                for _ in 0..self.plan.workers() {
                    let worker = self.options(tally, stop).concurrency(1).init().await?;
                    let stop = stop.clone();
                    workers.spawn(async move {
                        worker.run_once().await?;
                        stop.cancelled().await;
                        Ok(())
                    });
                }
            }
            Mode::Latency => {
                let worker = self.options(tally, stop).concurrency(1).init().await?;
                workers.spawn(async move { Ok(worker.run().await?) });
            }
        }
        Ok(workers)
    }

    fn note(&self) -> String {
        match self.plan.mode {
            Mode::Push => format!("add_raw_jobs, {}", self.plan.note()),
            Mode::Drain => {
                format!("local queue of {FETCH}, {HANDLERS} handlers, completions gathered")
            }
            Mode::Single => format!("run_once, {}", self.plan.note()),
            Mode::Latency => format!("no local queue, {}", self.plan.note()),
        }
    }
}

impl GraphileWorker {
    fn options(&self, tally: &Tally, stop: &CancellationToken) -> WorkerOptions {
        let shutdown = WorkerShutdownConfig::default()
            .listen_os_shutdown_signals(false)
            .shutdown_signal(stop.clone().cancelled_owned());
        WorkerOptions::default()
            .database(self.database.clone())
            .schema(SCHEMA)
            .worker_shutdown(shutdown)
            .add_extension(tally.clone())
            .define_job::<Job>()
    }
}

fn job(item: &Item) -> Result<RawJobSpec> {
    Ok(RawJobSpec {
        identifier: Job::IDENTIFIER.to_owned(),
        payload: serde_json::to_value(item)?,
        spec: JobSpec::default(),
    })
}
