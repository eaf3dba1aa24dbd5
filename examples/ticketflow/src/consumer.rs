//! A consumer: the step that the document left open. It notifies users of changes to tickets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::consume::{Delivered, RabbitConsumer};
use uuid::Uuid;

use crate::db::{Db, with_tx};
use crate::fault;
use crate::settings::Settings;

/// Name under which all consumers together record the events that they have handled.
pub(crate) const CONSUMER: &str = "notifications";

/// Maximum number of deliveries. After the last failure, the event goes to the dead-letter queue.
const MAX_DELIVERIES: u32 = 5;

/// Whether the consumer checks for duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idempotency {
    Seen,
    /// The control: `--sin-seen`.
    None,
}

/// Counters of one process.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) handled: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) failed: AtomicU64,
}

pub(crate) struct Consumer {
    pub(crate) turno: Turno,
    pub(crate) db: Db,
    pub(crate) idempotency: Idempotency,
    pub(crate) counts: Arc<Counts>,
}

/// Fields that all events of tickets have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfTicket {
    ticket_id: Uuid,
}

impl Consumer {
    /// Consumes until cancelled. A message whose handler fails is delivered again, and in the end goes to the dead-letter
    /// queue.
    pub(crate) async fn run(self, settings: &Settings, stop: CancellationToken) -> Result<()> {
        let this = Arc::new(self);
        // `topology` has declared the queue, with its dead-letter exchange.
        let consumer = RabbitConsumer::new(&settings.rabbitmq.url(), settings.rabbitmq.queue())?
            .no_declare()
            .max_deliveries(MAX_DELIVERIES);
        let handler = move |event: Delivered| {
            let this = this.clone();
            async move {
                let id = event.id;
                this.handle(event).await.inspect_err(|error| {
                    this.counts.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::error!("❌ Error al procesar mensaje {id}: {error:#}");
                })
            }
        };
        consumer.run(stop.cancelled_owned(), handler).await?;
        Ok(())
    }

    /// Records the event and does the work in one transaction. The message is acknowledged only after the commit.
    async fn handle(&self, event: Delivered) -> Result<()> {
        let about: OfTicket =
            serde_json::from_str(&event.payload).context("it does not tell of a ticket")?;
        with_tx!(&self.db, |tx| {
            if self.idempotency == Idempotency::Seen
                && !self
                    .turno
                    .mark_processed(&mut *tx, CONSUMER, event.id)
                    .await?
            {
                self.counts.duplicates.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("Mensaje {} ya fue procesado (idempotencia).", event.id);
                return Ok(());
            }
            sqlx::query(
                "insert into notifications (event_id, ticket_id, type, correlation_id) \
                 values ($1, $2, $3, $4)",
            )
            .bind(event.id.to_string())
            .bind(about.ticket_id.to_string())
            .bind(&event.kind)
            .bind(&event.correlation_id)
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
        });
        self.counts.handled.fetch_add(1, Ordering::Relaxed);
        tracing::info!("Mensaje procesado: {} (ID: {})", event.kind, event.id);
        fault::here(fault::AFTER_COMMIT);
        Ok(())
    }
}
