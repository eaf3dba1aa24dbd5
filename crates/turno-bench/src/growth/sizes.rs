//! Sizes of Turno's tables and of their indexes.

use anyhow::Result;
use tokio_postgres::{Client, NoTls, Statement};

use crate::queries::query;

/// A table of Turno.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    pub table_mb: f64,
    pub index_mb: f64,
    /// Dead rows that a vacuum has not removed, as PostgreSQL estimates.
    pub dead_rows: f64,
}

pub struct Sizes {
    client: Client,
    select: Statement,
}

impl Sizes {
    pub async fn connect(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let select = client.prepare(query("growth_sizes")).await?;
        Ok(Sizes { client, select })
    }

    pub async fn read(&self) -> Result<Vec<Table>> {
        let rows = self.client.query(&self.select, &[]).await?;
        let table = |row: &tokio_postgres::Row| Table {
            name: row.get(0),
            table_mb: row.get(1),
            index_mb: row.get(2),
            dead_rows: row.get(3),
        };
        Ok(rows.iter().map(table).collect())
    }
}
