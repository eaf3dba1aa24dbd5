//! Hand-written queues with `for update skip locked`, in both usual ways.

use std::marker::PhantomData;

use anyhow::Result;
use tokio_postgres::types::Json;
use tokio_postgres::{Client, Row, Statement};
use tokio_util::sync::CancellationToken;

use crate::consume::{Round, consume};
use crate::peer::{Item, Mode, Peer, Plan, Tally, Workers};
use crate::postgres::{self, Listener};
use crate::queries::query;

const CREATE: &str = query("skip_locked_create");
const PUSH: &str = query("skip_locked_push");
const PUSH_NOTIFY: &str = query("skip_locked_push_notify");
const DELETE: &str = query("skip_locked_delete");
const LEFT: &str = query("skip_locked_left");
const CHANNEL: &str = "item";

/// How a consumer claims and completes items.
pub trait Way: Send + 'static {
    const CLAIM: &str;
    const NOTE: &str;

    fn round(
        consumer: &mut Consumer<Self>,
        tally: &Tally,
    ) -> impl Future<Output = Result<usize>> + Send
    where
        Self: Sized;
}

/// A claim is an update that hides the items for some time. After a crash, they become visible again.
pub struct Leased;

impl Way for Leased {
    const CLAIM: &str = query("skip_locked_claim");
    const NOTE: &str = "a commit to claim and one to delete";

    async fn round(consumer: &mut Consumer<Self>, tally: &Tally) -> Result<usize> {
        let claim = &consumer.claim;
        let rows = consumer.client.query(claim, &[&consumer.limit]).await?;
        if !rows.is_empty() {
            tally.handle(rows.len());
            let delete = &consumer.delete;
            consumer.client.execute(delete, &[&ids(&rows)]).await?;
        }
        Ok(rows.len())
    }
}

/// A claim is a row lock, held by a transaction that is open while the items are handled.
pub struct InTransaction;

impl Way for InTransaction {
    const CLAIM: &str = query("skip_locked_lock");
    const NOTE: &str = "one transaction, open while items are handled";

    async fn round(consumer: &mut Consumer<Self>, tally: &Tally) -> Result<usize> {
        let transaction = consumer.client.transaction().await?;
        let rows = transaction
            .query(&consumer.claim, &[&consumer.limit])
            .await?;
        if !rows.is_empty() {
            tally.handle(rows.len());
            let delete = &consumer.delete;
            transaction.execute(delete, &[&ids(&rows)]).await?;
        }
        transaction.commit().await?;
        Ok(rows.len())
    }
}

fn ids(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.get(0)).collect()
}

pub struct SkipLocked<W> {
    plan: Plan,
    client: Client,
    push: Statement,
    listener: Option<Listener>,
    way: PhantomData<W>,
}

impl<W: Way> Peer for SkipLocked<W> {
    async fn open(plan: &Plan) -> Result<Self> {
        let client = postgres::connect(&plan.store).await?;
        client.batch_execute(CREATE).await?;
        let (mut push, mut listener) = (PUSH, None);
        if plan.mode == Mode::Latency {
            push = PUSH_NOTIFY;
            listener = Some(Listener::new(&plan.store, CHANNEL).await?);
        }
        Ok(SkipLocked {
            plan: plan.clone(),
            push: client.prepare(push).await?,
            client,
            listener,
            way: PhantomData,
        })
    }

    async fn push(&self, items: Vec<Item>) -> Result<()> {
        let items: Vec<Json<Item>> = items.into_iter().map(Json).collect();
        self.client.execute(&self.push, &[&items]).await?;
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
            let consumer = Consumer::<W> {
                claim: client.prepare(W::CLAIM).await?,
                delete: client.prepare(DELETE).await?,
                client,
                limit: self.plan.claim().try_into()?,
                way: PhantomData,
            };
            let wake = self.listener.as_ref().map(|listener| listener.wake.clone());
            workers.spawn(consume(consumer, wake, tally.clone(), stop.clone()));
        }
        Ok(workers)
    }

    fn note(&self) -> String {
        let note = self.plan.note();
        match self.plan.mode {
            Mode::Push => note,
            Mode::Drain | Mode::Single => format!("{}, {note}", W::NOTE),
            Mode::Latency => format!("notify, {note}"),
        }
    }
}

pub struct Consumer<W> {
    client: Client,
    claim: Statement,
    delete: Statement,
    limit: i64,
    way: PhantomData<W>,
}

impl<W: Way> Round for Consumer<W> {
    async fn round(&mut self, tally: &Tally) -> Result<usize> {
        W::round(self, tally).await
    }
}
