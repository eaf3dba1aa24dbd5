//! The worker: Turno's relay in mode *single*, with the document's constants.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::{Mode, RelayReport};

use crate::publisher::RabbitMqPublisher;
use crate::settings::Settings;

/// Whoever holds it is the only one that publishes.
pub(crate) const LOCK_ID: i64 = 42;
/// How many events are published at once.
const BATCH_SIZE: u32 = 50;
/// How often the broker may refuse an event before it is dead.
pub(crate) const MAX_ATTEMPTS: u32 = 5;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Publishes until told to stop. `pause` is the one after the first refusal; it doubles.
pub(crate) async fn run(
    turno: &Turno,
    settings: &Settings,
    pause: Duration,
    stop: CancellationToken,
) -> Result<RelayReport> {
    let publisher = RabbitMqPublisher::new(&settings.rabbitmq)?;
    let relay = turno
        .outbox()
        .relay(Arc::new(publisher))
        .mode(Mode::Single)
        .lock_id(LOCK_ID)
        .batch(BATCH_SIZE)
        .max_attempts(MAX_ATTEMPTS)
        .backoff(pause, LONGEST_PAUSE)
        .name(format!("worker {}", std::process::id()));
    Ok(relay.run(stop).await?)
}
