//! What an operation needs besides its call: the tasks that process what it stored, and the callers that wait for that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use futures_util::{StreamExt, stream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use tokio_util::sync::CancellationToken;

/// Tasks that run until they are stopped.
#[derive(Default)]
pub struct Background {
    pub stop: CancellationToken,
    tasks: tokio::sync::Mutex<JoinSet<Result<()>>>,
}

impl Background {
    pub async fn spawn(&self, task: impl Future<Output = Result<()>> + Send + 'static) {
        self.tasks.lock().await.spawn(task);
    }

    /// Stops the tasks and waits for their end.
    pub async fn close(&self) -> Result<()> {
        self.stop.cancel();
        let mut tasks = self.tasks.lock().await;
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

type Waiting = HashMap<u64, oneshot::Sender<Instant>>;

/// Callers that wait until the item or event with their number has arrived.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<Mutex<Waiting>>);

impl Arrivals {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Call it before the item or event is stored.
    pub fn expect(&self, number: u64) -> Arrival {
        let (sender, receiver) = oneshot::channel();
        self.waiting().insert(number, sender);
        Arrival(receiver)
    }

    /// Records an arrival. A repeated one is ignored: delivery is at least once.
    pub fn arrived(&self, number: u64) {
        let now = Instant::now();
        let sender = self.waiting().remove(&number);
        if let Some(sender) = sender {
            // The caller may have ended with an error.
            let _ = sender.send(now);
        }
    }
}

/// An arrival that is expected.
pub struct Arrival(oneshot::Receiver<Instant>);

impl Arrival {
    pub async fn time(self) -> Result<Instant> {
        self.0.await.context("the benchmark has ended")
    }
}

/// A connection that listens to a channel of PostgreSQL, and the consumers that it wakes.
pub struct Listener {
    _client: Client,
    pub wake: Arc<Notify>,
}

impl Listener {
    pub async fn open(url: &str, channel: &str) -> Result<Self> {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let wake = Arc::new(Notify::new());
        let woken = wake.clone();
        // It ends when the client is dropped.
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(_) = message {
                    woken.notify_one();
                }
            }
        });
        client
            .batch_execute(&format!("listen \"{channel}\""))
            .await?;
        Ok(Listener {
            _client: client,
            wake,
        })
    }
}
