//! A connection with a pool of channels: each batch has one channel to itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use lapin::types::ShortString;

use crate::amqp::Link;

/// Maximum number of idle channels.
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

    /// Returns a channel with confirms for exclusive use.
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

    /// Returns whether anything was ever confirmed on this connection.
    ///
    /// A broker reports to a connection that it blocks publishers only after something was published on it, and it is then
    /// unknown whether that arrived. So the first event on a connection is published alone.
    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }

    pub(super) fn prove(&self) {
        self.proven.store(true, Ordering::Relaxed);
    }
}

/// A channel in use. If it is dropped during a batch, the connection is closed too, because data that the client library
/// still has in its queue would follow the channel's close.
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

    /// Returns the channel to the pool. All its confirms have arrived.
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

    /// Drops the channel, but keeps the connection.
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
