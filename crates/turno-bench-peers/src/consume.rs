//! The loop of a consumer, for peers that leave it to their users.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::peer::Tally;

/// How long to rest when there was nothing to claim and nobody wakes us.
const REST: Duration = Duration::from_millis(5);

/// Claims some items, hands them to the handler, and completes them.
pub trait Round: Send + 'static {
    /// Answers how many there were.
    fn round(&mut self, tally: &Tally) -> impl Future<Output = Result<usize>> + Send;
}

/// Rounds, until it is told to stop.
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
