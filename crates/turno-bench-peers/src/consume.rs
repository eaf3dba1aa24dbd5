//! The loop of a consumer, for peers that have none of their own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::peer::Tally;

/// Pause after an empty claim, if there are no notifications.
const REST: Duration = Duration::from_millis(5);

/// Claims some items, passes them to the handler, and completes them.
pub trait Round: Send + 'static {
    /// Runs one round and returns the number of items.
    fn round(&mut self, tally: &Tally) -> impl Future<Output = Result<usize>> + Send;
}

/// Runs rounds until it is stopped.
pub async fn consume(
    mut consumer: impl Round,
    wake: Option<Arc<Notify>>,
    tally: Tally,
    stop: CancellationToken,
) -> Result<()> {
    while !stop.is_cancelled() {
        if consumer.round(&tally).await? == 0 {
            tokio::select! {
                () = stop.cancelled() => {}
                () = idle(wake.as_deref()) => {}
            }
        }
    }
    Ok(())
}

async fn idle(wake: Option<&Notify>) {
    match wake {
        Some(wake) => wake.notified().await,
        None => tokio::time::sleep(REST).await,
    }
}
