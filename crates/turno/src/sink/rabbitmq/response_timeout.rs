//! Timeouts for a broker that does not respond.

use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use tokio::sync::watch;

use super::batch::End;

/// A broker that blocks publishers still confirms what it had read before. This is how long those confirms are awaited.
const LAST_CONFIRMS_TIMEOUT: Duration = Duration::from_millis(500);

/// Waits for one response after the other, each with a timeout.
#[derive(Debug)]
pub(super) struct ResponseTimeout {
    pub(super) silence: Duration,
    pub(super) blocked: watch::Receiver<Option<String>>,
}

impl ResponseTimeout {
    /// Returns the output of `work`, unless the broker does not respond in time, or blocks publishers.
    pub(super) async fn wait_for<F: Future + Unpin>(
        &mut self,
        mut work: F,
    ) -> Result<F::Output, End> {
        // Confirms arrive in groups, so most of them are ready and need no timer.
        if let Poll::Ready(output) = poll!(&mut work) {
            return Ok(output);
        }
        tokio::select! {
            biased;
            output = &mut work => return Ok(output),
            () = until_blocked(&mut self.blocked) => {}
            () = tokio::time::sleep(self.silence) => return Err(End::Silent),
        }
        match tokio::time::timeout(LAST_CONFIRMS_TIMEOUT.min(self.silence), work).await {
            Ok(output) => Ok(output),
            Err(_) => match self.blocked.borrow().clone() {
                Some(reason) => Err(End::Blocked(reason)),
                // It has just been unblocked, too late for this batch.
                None => Err(End::Silent),
            },
        }
    }
}

async fn until_blocked(blocked: &mut watch::Receiver<Option<String>>) {
    if blocked.wait_for(Option::is_some).await.is_err() {
        // The connection has ended; `work` returns its error.
        std::future::pending::<()>().await;
    }
}
