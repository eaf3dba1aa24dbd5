//! pgmq: the extension's own SQL, installed as text, with arrays as batches.

use anyhow::Result;
use sqlx::postgres::PgPoolOptions;
use tokio_postgres::types::Json;
use tokio_postgres::{Client, Statement};
use tokio_util::sync::CancellationToken;

use crate::consume::{Round, consume};
use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};
use crate::postgres::{self, Listener};
use crate::queries::query;

const CREATE: &str = query("pgmq_create");
const NOTIFY: &str = query("pgmq_notify");
const SEND: &str = query("pgmq_send");
const READ: &str = query("pgmq_read");
const DELETE: &str = query("pgmq_delete");
const LEFT: &str = query("pgmq_left");
/// The channel that the extension notifies of an insertion into queue `bench`.
const CHANNEL: &str = "pgmq.q_bench.INSERT";

pub struct Pgmq {
    plan: Plan,
    client: Client,
    send: Statement,
    listener: Option<Listener>,
}

impl Peer for Pgmq {
    async fn open(plan: &Plan) -> Result<Self> {
        let pool = PgPoolOptions::new().connect(&plan.store).await?;
        pgmq::install::install_sql_from_embedded(&pool).await?;
        pool.close().await;
        let client = postgres::connect(&plan.store).await?;
        client.batch_execute(CREATE).await?;
        let mut listener = None;
        // With notifications, each insertion runs a trigger, so they are enabled only to measure latency.
        if plan.mode == Mode::Latency {
            client.batch_execute(NOTIFY).await?;
            listener = Some(Listener::new(&plan.store, CHANNEL).await?);
        }
        let send = client.prepare(SEND).await?;
        Ok(Pgmq {
            plan: plan.clone(),
            client,
            send,
            listener,
        })
    }

    async fn push(&self, items: Vec<Item>) -> Result<()> {
        let items: Vec<Json<Item>> = items.into_iter().map(Json).collect();
        self.client.query(&self.send, &[&items]).await?;
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
        for _ in 0..self.plan.workers() {
            let client = postgres::connect(&self.plan.store).await?;
            let consumer = Consumer {
                read: client.prepare(READ).await?,
                delete: client.prepare(DELETE).await?,
                client,
                limit: self.plan.claim().try_into()?,
            };
            let wake = self.listener.as_ref().map(|listener| listener.wake.clone());
            workers.spawn(consume(consumer, wake, tally.clone(), stop.clone()));
        }
        Ok(workers)
    }

    fn note(&self) -> String {
        match self.plan.mode {
            Mode::Push => format!("send_batch, {}", self.plan.note()),
            Mode::Drain | Mode::Single => format!("read + delete, {}", self.plan.note()),
            Mode::Latency => format!("enable_notify_insert, {}", self.plan.note()),
        }
    }
}

struct Consumer {
    client: Client,
    read: Statement,
    delete: Statement,
    limit: i32,
}

impl Round for Consumer {
    async fn round(&mut self, tally: &Tally) -> Result<usize> {
        let rows = self.client.query(&self.read, &[&self.limit]).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        tally.handle(rows.len());
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        self.client.query(&self.delete, &[&ids]).await?;
        Ok(rows.len())
    }
}
