//! The usual implementation: rows are selected and locked, published one after the other, and marked and recorded one by one.

use std::time::Instant;

use anyhow::Result;
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use tokio_postgres::NoTls;
use turno_testkit::PostgresServer;

use super::PAYLOAD_BYTES;
use super::broker::{EXCHANGE, ROUTING_KEY, fresh};
use crate::queries::query;

const CREATE: &str = query("by_row_create");
const FILL: &str = query("by_row_fill");
const SELECT: &str = query("by_row_select");
const MARK: &str = query("by_row_mark");
const RECORD: &str = query("by_row_record");

pub async fn drain(server: &PostgresServer, url: &str, events: usize) -> Result<f64> {
    let (_connection, channel) = fresh(url).await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let (client, connection) = tokio_postgres::connect(&server.create_database(), NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(CREATE).await?;
    let payload = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES - 2));
    let many = i32::try_from(events)?;
    client.execute(FILL, &[&payload, &many]).await?;
    let (select, mark, record) = (
        client.prepare(SELECT).await?,
        client.prepare(MARK).await?,
        client.prepare(RECORD).await?,
    );
    let began = Instant::now();
    let mut done = 0;
    while done < events {
        for row in client.query(&select, &[]).await? {
            let (id, payload): (i64, String) = (row.get(0), row.get(1));
            let properties = BasicProperties::default().with_delivery_mode(2);
            let mandatory = BasicPublishOptions {
                mandatory: true,
                ..BasicPublishOptions::default()
            };
            channel
                .basic_publish(
                    EXCHANGE.into(),
                    ROUTING_KEY.into(),
                    mandatory,
                    payload.as_bytes(),
                    properties,
                )
                .await?
                .await?;
            client.execute(&mark, &[&id]).await?;
            client.execute(&record, &[&id]).await?;
            done += 1;
        }
    }
    Ok(events as f64 / began.elapsed().as_secs_f64())
}
