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

const SCHEMA: &str = "graphile_worker";
/// A completed job is deleted.
const LEFT: &str = include_str!("graphile_worker/left.sql");
/// The best of those tried with batches: jobs fetched at once, handlers at once, and for how long
/// completions are gathered.
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
        let shutdown = WorkerShutdownConfig::default()
            .listen_os_shutdown_signals(false)
            .shutdown_signal(stop.clone().cancelled_owned());
        let e = |k: &str, d: usize| std::env::var(k).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
        let base = |c: CancellationToken| WorkerOptions::default()
            .database(self.database.clone())
            .schema(SCHEMA)
            .worker_shutdown(WorkerShutdownConfig::default().listen_os_shutdown_signals(false).shutdown_signal(c.cancelled_owned()))
            .add_extension(tally.clone())
            .define_job::<Job>();
        let _ = shutdown;
        let mut workers = Workers::new();
        match self.plan.mode {
            Mode::Push | Mode::Drain => {
                let w = base(stop.clone()).concurrency(e("GH", HANDLERS))
                .complete_job_batch_delay(Duration::from_millis(e("GG", 5) as u64))
                .local_queue(LocalQueueConfig::default().with_size(e("GF", FETCH)).with_queue_count(e("GQ",1))).init().await?;
                workers.spawn(async move { Ok(w.run().await?) });
            }
            Mode::Single if e("GS", 0) == 0 => {
                for _ in 0..8 {
                    let w = base(stop.clone()).concurrency(1).init().await?;
                    let stop = stop.clone();
                    workers.spawn(async move { w.run_once().await?; stop.cancelled().await; Ok(()) });
                }
            }
            Mode::Single if e("GS", 0) == 1 => {
                let w = base(stop.clone()).concurrency(8).poll_interval(Duration::from_millis(1)).init().await?;
                workers.spawn(async move { Ok(w.run().await?) });
            }
            Mode::Single if e("GS", 0) == 2 => {
                let w = base(stop.clone()).concurrency(8).local_queue(LocalQueueConfig::default().with_size(1).with_queue_count(8)).init().await?;
                workers.spawn(async move { Ok(w.run().await?) });
            }
            _ => {
                let w = base(stop.clone()).concurrency(self.plan.workers()).init().await?;
                workers.spawn(async move { Ok(w.run().await?) });
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
            Mode::Single | Mode::Latency => format!("no local queue, {}", self.plan.note()),
        }
    }
}

fn job(item: &Item) -> Result<RawJobSpec> {
    Ok(RawJobSpec {
        identifier: Job::IDENTIFIER.to_owned(),
        payload: serde_json::to_value(item)?,
        spec: JobSpec::default(),
    })
}
