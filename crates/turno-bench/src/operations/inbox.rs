//! An item, from its push until a handler has it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use deadpool_postgres::Pool;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_postgres::types::Json;
use tokio_postgres::{Client, NoTls, Statement};
use turno::Turno;
use turno::inbox::{Inbox, Job};

use super::background::{Arrivals, Background, Listener};
use super::servers::pool;
use super::{Operation, POOL, Subject};
use crate::inbox::PAYLOAD_BYTES;
use crate::queries::query;

/// Consumers of the hand-written queue, and how many items each claims at once: as many as Turno's worker has handlers.
const CONSUMERS: usize = 4;
const CLAIM: i64 = 16;
/// How long a hand-written consumer waits for a notification before it polls.
const POLL: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
struct Payload {
    number: u64,
    body: String,
}

impl Payload {
    fn of(number: u64) -> Self {
        let frame = r#"{"number":1000000,"body":""}"#.len();
        let body = "x".repeat(PAYLOAD_BYTES - frame);
        Payload { number, body }
    }
}

pub async fn turno(url: &str) -> Result<Subject> {
    let turno = Turno::builder().connections(POOL).connect(url).await?;
    let arrivals = Arrivals::default();
    let background = Background::default();
    let inbox = turno.inbox("work");
    let (worker, handled) = (inbox.clone(), arrivals.clone());
    let stopped = background.stop.clone().cancelled_owned();
    background
        .spawn(async move {
            let handler = move |job: Job<Payload>| {
                handled.arrived(job.payload.number);
                std::future::ready(Ok::<_, Infallible>(()))
            };
            worker.worker(handler).run(stopped).await?;
            Ok(())
        })
        .await;
    let operation = TurnoInbox {
        turno,
        inbox,
        arrivals,
        background,
    };
    Ok(Subject::new("turno", operation))
}

struct TurnoInbox {
    turno: Turno,
    inbox: Inbox,
    arrivals: Arrivals,
    background: Background,
}

#[async_trait]
impl Operation for TurnoInbox {
    async fn run(&self, number: u64) -> Result<Instant> {
        let arrival = self.arrivals.expect(number);
        self.inbox.push(&Payload::of(number)).await?;
        arrival.time().await
    }

    async fn close(&self) -> Result<()> {
        self.background.close().await?;
        self.turno.close().await;
        Ok(())
    }
}

/// The hand-written queue of the peers' program: claims with `for update skip locked`, pushes with `pg_notify`.
pub async fn hand_written(url: &str) -> Result<Subject> {
    let pool = pool(url)?;
    let create = query("skip_locked_create");
    pool.get().await?.batch_execute(create).await?;
    let arrivals = Arrivals::default();
    let background = Background::default();
    let listener = Listener::open(url, "item").await?;
    for _ in 0..CONSUMERS {
        let consumer = Consumer::open(url, &listener, arrivals.clone()).await?;
        let stop = background.stop.clone();
        background
            .spawn(async move {
                let stopped = stop.cancelled();
                tokio::select! {
                    ended = consumer.run() => ended,
                    () = stopped => Ok(()),
                }
            })
            .await;
    }
    let operation = SkipLocked {
        pool,
        _listener: listener,
        arrivals,
        background,
    };
    Ok(Subject::new("skip_locked, notify", operation))
}

struct SkipLocked {
    pool: Pool,
    _listener: Listener,
    arrivals: Arrivals,
    background: Background,
}

#[async_trait]
impl Operation for SkipLocked {
    async fn run(&self, number: u64) -> Result<Instant> {
        let arrival = self.arrivals.expect(number);
        {
            let client = self.pool.get().await?;
            let push = client
                .prepare_cached(query("skip_locked_push_notify"))
                .await?;
            let payloads = [Json(Payload::of(number))];
            client.query(&push, &[&&payloads[..]]).await?;
        }
        arrival.time().await
    }

    async fn close(&self) -> Result<()> {
        self.background.close().await
    }
}

struct Consumer {
    client: Client,
    claim: Statement,
    delete: Statement,
    wake: Arc<Notify>,
    arrivals: Arrivals,
}

impl Consumer {
    async fn open(url: &str, listener: &Listener, arrivals: Arrivals) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Consumer {
            claim: client.prepare(query("skip_locked_claim")).await?,
            delete: client.prepare(query("skip_locked_delete")).await?,
            client,
            wake: listener.wake.clone(),
            arrivals,
        })
    }

    async fn run(&self) -> Result<()> {
        loop {
            let rows = self.client.query(&self.claim, &[&CLAIM]).await?;
            if rows.is_empty() {
                // A notification may be lost, so it polls too.
                let _ = tokio::time::timeout(POLL, self.wake.notified()).await;
                continue;
            }
            let mut ids = Vec::with_capacity(rows.len());
            for row in &rows {
                let Json(payload) = row.try_get::<_, Json<Payload>>(2)?;
                self.arrivals.arrived(payload.number);
                ids.push(row.try_get::<_, i64>(0)?);
            }
            self.client.execute(&self.delete, &[&ids]).await?;
        }
    }
}
