//! How long to wait for a broker that says nothing.

use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use tokio::sync::watch;

use super::batch::End;

/// A broker that blocks publishers still confirms what it had read before: it gets so long to say it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Waits for one answer after the other, and not longer than agreed for any of them.
#[derive(Debug)]
pub(super) struct Patience {
    pub(super) silence: Duration,
    pub(super) blocked: watch::Receiver<Option<String>>,
}

impl Patience {
    /// What `work` yields, unless the broker is silent, or blocks publishers.
    pub(super) async fn hear<F: Future + Unpin>(&mut self, mut work: F) -> Result<F::Output, End> {
        // Answers come in crowds: of most of them nobody has to wait, and no timer is needed.
        if let Poll::Ready(heard) = poll!(&mut work) {
            return Ok(heard);
        }
        tokio::select! {
            biased;
            heard = &mut work => return Ok(heard),
            () = until_blocked(&mut self.blocked) => {}
            () = tokio::time::sleep(self.silence) => return Err(End::Silent),
        }
        match tokio::time::timeout(LAST_WORDS.min(self.silence), work).await {
            Ok(heard) => Ok(heard),
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
        // The connection has ended; its errors say so.
        std::future::pending::<()>().await;
    }
}
