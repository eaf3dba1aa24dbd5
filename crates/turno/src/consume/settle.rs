//! Runs the handler for one event, and acknowledges or rejects it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicRejectOptions};
use tokio_util::sync::CancellationToken;

use super::Delivered;
use super::session::Tally;
use crate::HandlerError;
use crate::amqp::fault;
use crate::backoff::Backoff;
use crate::handler_error::text_with_causes;

/// Pauses before a failed event is requeued, by its deliveries.
const REQUEUE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// Input of one delivery's attempt.
pub(super) struct Attempt<H> {
    pub(super) handler: Arc<H>,
    pub(super) tally: Arc<Tally>,
    pub(super) shutdown: CancellationToken,
    pub(super) queue: String,
    pub(super) max_deliveries: u32,
    /// Timeout of an acknowledgement or rejection.
    pub(super) silence: Duration,
}

impl<H, F, E> Attempt<H>
where
    H: Fn(Delivered) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<HandlerError>,
{
    /// Runs the handler, and acknowledges afterwards, never before.
    pub(super) async fn run(self, mut delivery: Delivery) {
        let event = match Delivered::read(&mut delivery) {
            Ok(event) => event,
            Err(reason) => {
                tracing::warn!(
                    queue = self.queue,
                    reason,
                    "rejected a message that is no event"
                );
                return self.reject(&delivery).await;
            }
        };
        let (id, deliveries) = (event.id, event.deliveries);
        // Unwind-safe: the handler shares no state with us. It is responsible for its own state after a panic.
        let handled = AssertUnwindSafe(async { (self.handler)(event).await }).catch_unwind();
        let error = match handled.await {
            Ok(Ok(())) => return self.acknowledge(&delivery).await,
            Ok(Err(error)) => text_with_causes(&*error.into()),
            Err(_) => "the handler panicked".to_owned(),
        };
        self.tally.failed.fetch_add(1, Ordering::Relaxed);
        if deliveries >= self.max_deliveries {
            tracing::warn!(
                queue = self.queue, event = %id, deliveries, error,
                "rejected an event for good: it goes to the queue's dead-letter exchange, if it has one"
            );
            return self.reject(&delivery).await;
        }
        tracing::debug!(queue = self.queue, event = %id, deliveries, error, "an event failed, and will come again");
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = tokio::time::sleep(REQUEUE.after(deliveries)) => {}
        }
        let again = BasicNackOptions {
            requeue: true,
            ..BasicNackOptions::default()
        };
        // If this fails, the connection is lost, and the event is therefore delivered again.
        let _ = self.tell(delivery.nack(again)).await;
    }

    /// Sends an acknowledgement or rejection, or returns why that failed. If the connection breaks at that moment, the client
    /// library may never resolve the future, hence the timeout.
    async fn tell(&self, telling: impl Future<Output = lapin::Result<bool>>) -> Result<(), String> {
        match tokio::time::timeout(self.silence, telling).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err("the connection is closed".to_owned()),
            Ok(Err(error)) => Err(fault::explain(&error)),
            Err(_) => Err("the connection is silent".to_owned()),
        }
    }

    async fn acknowledge(&self, delivery: &Delivery) {
        self.tally.handled.fetch_add(1, Ordering::Relaxed);
        let Err(reason) = self.tell(delivery.ack(BasicAckOptions::default())).await else {
            return;
        };
        tracing::debug!(
            queue = self.queue,
            reason,
            "an event was handled, and comes again because that could not be said"
        );
    }

    async fn reject(&self, delivery: &Delivery) {
        let for_good = BasicRejectOptions { requeue: false };
        if self.tell(delivery.reject(for_good)).await.is_ok() {
            self.tally.rejected.fetch_add(1, Ordering::Relaxed);
        }
    }
}
