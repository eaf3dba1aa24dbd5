//! The usual implementation: rows are selected and locked, published one after the other, and marked and recorded one by one.

use std::time::Instant;

use anyhow::Result;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel};
use tokio_postgres::{Client, NoTls, Statement};
use turno_testkit::PostgresServer;

use super::PAYLOAD_BYTES;
use super::broker::{EXCHANGE, ROUTING_KEY, fresh};
use crate::queries::query;

const CREATE: &str = query("by_row_create");
/// Stores messages. $1 payload, $2 number of messages.
pub const FILL: &str = query("by_row_fill");
const SELECT: &str = query("by_row_select");
const MARK: &str = query("by_row_mark");
const RECORD: &str = query("by_row_record");

/// The relay.
pub struct ByRow {
    client: Client,
    select: Statement,
    mark: Statement,
    record: Statement,
}

impl ByRow {
    /// Creates the tables in a new database.
    pub async fn create(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(CREATE).await?;
        Ok(ByRow {
            select: client.prepare(SELECT).await?,
            mark: client.prepare(MARK).await?,
            record: client.prepare(RECORD).await?,
            client,
        })
    }

    /// Publishes the next rows, and returns their number.
    pub async fn round(&self, sink: &impl PublishRow) -> Result<usize> {
        let rows = self.client.query(&self.select, &[]).await?;
        for row in &rows {
            let (id, payload): (i64, String) = (row.get(0), row.get(1));
            sink.publish(&payload).await?;
            self.client.execute(&self.mark, &[&id]).await?;
            self.client.execute(&self.record, &[&id]).await?;
        }
        Ok(rows.len())
    }
}

/// Where the relay publishes a row.
pub trait PublishRow: Send + Sync {
    fn publish(&self, payload: &str) -> impl Future<Output = Result<()>> + Send;
}

impl PublishRow for Channel {
    async fn publish(&self, payload: &str) -> Result<()> {
        let properties = BasicProperties::default().with_delivery_mode(2);
        let mandatory = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let (exchange, key) = (EXCHANGE.into(), ROUTING_KEY.into());
        self.basic_publish(exchange, key, mandatory, payload.as_bytes(), properties)
            .await?
            .await?;
        Ok(())
    }
}

pub async fn drain(server: &PostgresServer, url: &str, events: usize) -> Result<f64> {
    let (_connection, channel) = fresh(url).await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let relay = ByRow::create(&server.create_database()).await?;
    let payload = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES - 2));
    let many = i32::try_from(events)?;
    relay.client.execute(FILL, &[&payload, &many]).await?;
    let began = Instant::now();
    let mut done = 0;
    while done < events {
        done += relay.round(&channel).await?;
    }
    Ok(events as f64 / began.elapsed().as_secs_f64())
}
