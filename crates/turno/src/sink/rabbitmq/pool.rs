//! A connection with channels that are lent: one batch has one channel to itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use lapin::types::ShortString;

use crate::amqp::Link;

/// How many idle channels are kept.
const IDLE: usize = 16;

/// A connection and its idle channels.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) link: Link,
    pub(super) exchange: ShortString,
    idle: Mutex<Vec<Channel>>,
    proven: AtomicBool,
}

impl Pool {
    pub(super) fn new(link: Link, exchange: ShortString) -> Self {
        Pool {
            link,
            exchange,
            idle: Mutex::new(Vec::new()),
            proven: AtomicBool::new(false),
        }
    }

    /// A channel with confirms, and nobody else's.
    pub(super) async fn lend(self: &Arc<Self>) -> lapin::Result<Lent> {
        let kept = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            std::iter::from_fn(|| idle.pop()).find(|channel| channel.status().connected())
        };
        let channel = match kept {
            Some(channel) => channel,
            None => {
                let channel = self.link.open_channel().await?;
                channel
                    .confirm_select(ConfirmSelectOptions::default())
                    .await?;
                channel
            }
        };
        Ok(Lent {
            pool: self.clone(),
            channel: Some(channel),
        })
    }

    /// Whether anything was ever confirmed on this connection.
    ///
    /// A broker tells a connection that it blocks publishers only when something has been published on it, and what was
    /// published then is in doubt. So the first thing on a connection goes alone.
    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }

    pub(super) fn prove(&self) {
        self.proven.store(true, Ordering::Relaxed);
    }
}

/// A channel that is lent. Dropped in the middle of a batch, it takes the connection with it: what the client still
/// has in its queue would follow the channel's end.
#[derive(Debug)]
pub(super) struct Lent {
    pool: Arc<Pool>,
    channel: Option<Channel>,
}

impl Lent {
    pub(super) fn channel(&self) -> &Channel {
        self.channel
            .as_ref()
            .expect("only what consumes a loan takes its channel")
    }

    /// All answers are there: others may have it.
    pub(super) fn give_back(mut self) {
        if let Some(channel) = self.channel.take()
            && channel.status().connected()
        {
            let mut idle = self
                .pool
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE {
                idle.push(channel);
            }
        }
    }

    /// The channel is not used again; the connection is.
    pub(super) fn discard(mut self) {
        self.channel = None;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.channel.is_some() {
            self.pool.link.cut();
        }
    }
}
