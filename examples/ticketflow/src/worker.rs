//! The worker: Turno's relay in mode *single*, with the document's constants.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::{Mode, RelayReport};

use crate::publisher::RabbitMqPublisher;
use crate::settings::Settings;

/// Lock of the leader: only its holder publishes.
pub(crate) const LOCK_ID: i64 = 42;
/// Number of events per batch.
const BATCH_SIZE: u32 = 50;
/// Number of attempts before an event that the broker rejects is dead.
pub(crate) const MAX_ATTEMPTS: u32 = 5;
/// Maximum pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Publishes until cancelled. `pause` is the backoff after the first rejection; it doubles.
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
    Ok(relay.run(stop.cancelled_owned()).await?)
}
