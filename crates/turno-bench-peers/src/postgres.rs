//! Code that the peers on PostgreSQL share.

use std::sync::Arc;

use anyhow::Result;
use futures::StreamExt;
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client, NoTls};

pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns the single number of a query's result.
pub async fn count(client: &Client, query: &str) -> Result<u64> {
    let count: i64 = client.query_one(query, &[]).await?.get(0);
    Ok(count.try_into()?)
}

/// Updates statistics, and prevents a checkpoint during the measurement.
pub async fn settle(client: &Client) -> Result<()> {
    client.batch_execute("vacuum analyze").await?;
    client.batch_execute("checkpoint").await?;
    Ok(())
}

/// A listening connection, and the consumers that it wakes.
pub struct Listener {
    _client: Client,
    pub wake: Arc<Notify>,
}

impl Listener {
    pub async fn new(url: &str, channel: &str) -> Result<Self> {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let wake = Arc::new(Notify::new());
        let woken = wake.clone();
        tokio::spawn(async move {
            let mut messages = futures::stream::poll_fn(move |cx| connection.poll_message(cx));
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
