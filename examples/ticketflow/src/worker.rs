//! The worker: Turno's relay with the document's constants, from Turno's outbox or from the document's own table.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::{Mode, RelayReport};

use crate::publisher::RabbitMqPublisher;

/// Lock of the leader: only its holder publishes.
pub(crate) const LOCK_ID: i64 = 42;
/// Number of events per batch.
const BATCH_SIZE: u32 = 50;
/// Number of attempts before an event that the broker rejects is dead.
pub(crate) const MAX_ATTEMPTS: u32 = 5;
/// Maximum pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Options of the worker.
#[derive(Args)]
pub(crate) struct WorkerOptions {
    /// Pause after the first rejection, in milliseconds; it doubles.
    #[arg(long, default_value_t = 1000)]
    pausa_ms: u64,
    /// The document's own table, adopted with `turno adopt --as outbox`. Default: Turno's outbox.
    #[arg(long, value_name = "TABLE")]
    tabla: Option<String>,
    /// `single` as in the document, or `ordered`: all workers publish, and the events of one aggregate stay in order.
    #[arg(long, default_value = "single", value_name = "MODE")]
    modo: Mode,
    /// Lease of claimed events, in milliseconds: those of a dead worker are published after this time in mode `ordered`.
    #[arg(long, default_value_t = 15_000)]
    lease_ms: u64,
}

/// Publishes until cancelled.
pub(crate) async fn run(
    turno: &Turno,
    publisher: RabbitMqPublisher,
    options: WorkerOptions,
    stop: CancellationToken,
) -> Result<RelayReport> {
    let publisher = Arc::new(publisher);
    let relay = match options.tabla {
        Some(table) => turno.outbox_table(table).relay(publisher),
        None => turno.outbox().relay(publisher),
    };
    let relay = relay
        .mode(options.modo)
        .lock_id(LOCK_ID)
        .batch(BATCH_SIZE)
        .max_attempts(MAX_ATTEMPTS)
        .backoff(Duration::from_millis(options.pausa_ms), LONGEST_PAUSE)
        .lease(Duration::from_millis(options.lease_ms))
        .name(format!("worker {}", std::process::id()));
    Ok(relay.run(stop.cancelled_owned()).await?)
}
