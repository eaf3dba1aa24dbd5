//! Destination of the events: a file that stands for a broker, or RabbitMQ.

mod rabbit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use turno::sink::{Outage, Outgoing, PublishResult, Sink, SinkOptions, from_url};
use uuid::Uuid;

use super::ledger;
use super::set::Set;
use super::ticketflow::TICKET_CREATED;
use crate::fail::Usage;

/// Header with the run of an event.
pub(super) const RUN: &str = "turno-demo-run";

/// Name of the exchange and the queue in RabbitMQ.
const NAME: &str = "turno.demo";

/// Checks whether the broker can be used.
pub(super) async fn check(url: &str) -> Result<()> {
    let wrong = |detail: String| Usage::new("broker", detail);
    if !url.starts_with("amqp://") && !url.starts_with("amqps://") {
        return Err(wrong(
            "broker must be the URL of a RabbitMQ: amqp://… or amqps://…".to_owned(),
        )
        .into());
    }
    let sink = from_url(url, &options()).map_err(|error| wrong(error.to_string()))?;
    sink.ready().await?;
    sink.close().await;
    Ok(())
}

fn options() -> SinkOptions {
    let mut options = SinkOptions::default();
    options.exchange = Some(NAME.to_owned());
    options
}

/// Returns the sink of a run.
pub(super) fn sink(set: &Set) -> Result<Arc<dyn Sink>> {
    match &set.broker {
        Some(url) => Ok(from_url(url, &options())?),
        None => Ok(Arc::new(Heard(heard(set)))),
    }
}

fn heard(set: &Set) -> PathBuf {
    set.folder.join("heard")
}

/// A file that stands for a broker, with one line per event.
#[derive(Debug)]
struct Heard(PathBuf);

#[async_trait]
impl Sink for Heard {
    fn name(&self) -> String {
        "a file".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let write = |event: &Outgoing| match ledger::append(&self.0, &event.payload) {
            Ok(()) => PublishResult::Sent,
            Err(error) => PublishResult::Doubtful(Outage::new(format!("{error:#}"))),
        };
        events.iter().map(write).collect()
    }
}

/// A sink that requests permission before it publishes. Publishes nothing of a batch with events of other runs.
#[derive(Debug)]
pub(super) struct Ours {
    sink: Arc<dyn Sink>,
    run: String,
    ask: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl Ours {
    pub(super) fn new(
        sink: Arc<dyn Sink>,
        set: &Set,
        ask: mpsc::UnboundedSender<oneshot::Sender<()>>,
    ) -> Self {
        Ours {
            sink,
            run: set.run.clone(),
            ask,
        }
    }
}

#[async_trait]
impl Sink for Ours {
    fn name(&self) -> String {
        self.sink.name()
    }

    async fn ready(&self) -> Result<(), Outage> {
        self.sink.ready().await
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let is_ours = |event: &Outgoing| event.headers.get(RUN) == Some(&self.run);
        if !events.iter().all(is_ours) {
            let outage =
                Outage::new("another program uses this outbox: its events are not published");
            return vec![PublishResult::Unsent(outage); events.len()];
        }
        let (may_go, went) = oneshot::channel();
        // No receiver means that the relay is being stopped.
        let _ = self.ask.send(may_go);
        let _ = went.await;
        self.sink.publish(events).await
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}

/// Publishes a ticket directly, as an application without an outbox does.
pub(super) async fn publish(sink: &dyn Sink, set: &Set, ticket: &str) -> Result<()> {
    match offer(sink, set, ticket).await? {
        PublishResult::Sent => Ok(()),
        other => bail!("the event was not published: {other:?}"),
    }
}

async fn offer(sink: &dyn Sink, set: &Set, ticket: &str) -> Result<PublishResult> {
    sink.ready().await?;
    let event = Outgoing {
        id: Uuid::now_v7(),
        kind: TICKET_CREATED.to_owned(),
        key: Some(ticket.to_owned()),
        correlation_id: None,
        traceparent: None,
        tracestate: None,
        headers: BTreeMap::from([(RUN.to_owned(), set.run.clone())]),
        emitted_at: turno::clock::machine(),
        payload: json!({"ticketId": ticket}).to_string(),
        attempt: 1,
        possible_duplicate: false,
    };
    let fates = sink.publish(&[event]).await;
    fates
        .into_iter()
        .next()
        .context("the sink returned no result for the event")
}

/// Creates the queue, so that the events are kept until they are counted.
pub(super) async fn prepare(set: &Set) -> Result<()> {
    if let Some(url) = &set.broker {
        rabbit::take(set, url, "first").await?;
    }
    Ok(())
}

/// Returns the tickets that were published.
pub(super) async fn received(set: &Set) -> Result<BTreeSet<String>> {
    let payloads = match &set.broker {
        Some(url) => rabbit::take(set, url, "last").await?,
        None => ledger::lines(&heard(set))?,
    };
    payloads.iter().map(|payload| ticket(payload)).collect()
}

fn ticket(payload: &str) -> Result<String> {
    let event: serde_json::Value = serde_json::from_str(payload)?;
    let ticket = event["ticketId"].as_str();
    Ok(ticket.context("the event has no ticketId")?.to_owned())
}
