//! The document's `RabbitMqPublisher`: Turno's sink for RabbitMQ, with a log line per step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use turno::sink::{Outage, Outgoing, PublishResult, RabbitMq, Sink, routing_key};

use crate::fault;
use crate::settings::RabbitMqSettings;
use crate::worker::{LOCK_ID, MAX_ATTEMPTS};

/// Publishes to the document's exchange. Turno handles exchange, routing keys, headers and confirms.
#[derive(Debug)]
pub(crate) struct RabbitMqPublisher {
    sink: RabbitMq,
    pub(crate) counts: Arc<PublisherCounts>,
}

/// Counters of a worker, as in its log: Exitosos, Fallidos, Omitidos.
#[derive(Debug, Default)]
pub(crate) struct PublisherCounts {
    pub(crate) sent: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) skipped: AtomicU64,
}

impl RabbitMqPublisher {
    pub(crate) fn new(settings: &RabbitMqSettings) -> turno::Result<Self> {
        let sink = RabbitMq::new(&settings.url())?.exchange(&settings.exchange);
        Ok(RabbitMqPublisher {
            sink,
            counts: Arc::default(),
        })
    }
}

#[async_trait]
impl Sink for RabbitMqPublisher {
    fn name(&self) -> String {
        self.sink.name()
    }

    async fn ready(&self) -> Result<(), Outage> {
        self.sink.ready().await
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        tracing::info!(
            "Procesando {} mensajes del Outbox (Lock ID: {LOCK_ID})",
            events.len()
        );
        let fates = self.sink.publish(events).await;
        for (event, result) in events.iter().zip(&fates) {
            log(event, result);
        }
        let count =
            |wanted: fn(&PublishResult) -> bool| fates.iter().filter(|it| wanted(it)).count();
        let sent = count(|result| matches!(result, PublishResult::Sent));
        let skipped = count(|result| matches!(result, PublishResult::Dropped(_)));
        let failed = fates.len() - sent - skipped;
        tracing::info!(
            "Procesamiento completado. Exitosos: {sent}, Fallidos: {failed}, Omitidos: {skipped}"
        );
        let add = |counter: &AtomicU64, many: usize| {
            counter.fetch_add(many as u64, Ordering::Relaxed);
        };
        add(&self.counts.sent, sent);
        add(&self.counts.failed, failed);
        add(&self.counts.skipped, skipped);
        fault::here(fault::AFTER_PUBLISH);
        fates
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}

fn log(event: &Outgoing, result: &PublishResult) {
    let Outgoing { id, kind, .. } = event;
    let name = kind.rsplit('.').next().unwrap_or(kind);
    match result {
        PublishResult::Sent => {
            tracing::debug!(
                "Mensaje publicado: {} → CorrelationId: {}",
                routing_key(kind),
                event.correlation_id.as_deref().unwrap_or("-")
            );
            tracing::info!("✅ Mensaje publicado: {name} (ID: {id})");
        }
        PublishResult::Dropped(reason) => {
            tracing::warn!("Mensaje {id} omitido. Marcando como despachado: {reason}");
        }
        PublishResult::Refused(error) | PublishResult::Suspect(error) => tracing::error!(
            "❌ Error al procesar mensaje {id} del tipo {name}. Intento {}/{MAX_ATTEMPTS}: {error}",
            event.attempt
        ),
        // The document counts these as attempts, too; then an outage of half an hour would make every event dead.
        PublishResult::Unsent(outage)
        | PublishResult::Doubtful(outage)
        | PublishResult::Unrouted(outage)
        | PublishResult::Busy(outage) => tracing::error!(
            "❌ Error al procesar mensaje {id} del tipo {name}. No cuenta como intento: {outage}"
        ),
    }
}
