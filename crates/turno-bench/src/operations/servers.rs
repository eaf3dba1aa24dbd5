//! The servers that the operations need.

use anyhow::{Context, Result};
use deadpool_postgres::{Manager, Pool};
use tokio_postgres::NoTls;
use turno_testkit::{PostgresServer, RabbitMq, RedisServer};

use super::{Kind, POOL};

/// Settings of PostgreSQL with which an answer means that the data is on the disk.
pub const DURABLE: [(&str, &str); 6] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("shared_buffers", "1GB"),
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "30min"),
];

/// Private servers. They end on drop.
pub struct Servers {
    pub postgres: PostgresServer,
    broker: Option<RabbitMq>,
    redis: Option<RedisServer>,
}

impl Servers {
    /// Starts the servers of these operations. Without Redis, locks are compared with advisory locks.
    pub fn start(kinds: &[Kind]) -> Result<Self> {
        let broker = kinds.contains(&Kind::Outbox).then(RabbitMq::start);
        let redis = match kinds.contains(&Kind::Lock).then(RedisServer::start) {
            Some(Err(error)) => {
                println!("Redis is not there: {error:#}");
                None
            }
            started => started.transpose()?,
        };
        Ok(Servers {
            postgres: PostgresServer::start_with(&DURABLE)?,
            broker: broker.transpose()?,
            redis,
        })
    }

    /// PostgreSQL alone, with these settings besides [`DURABLE`].
    pub fn postgres_with(settings: &[(&str, &str)]) -> Result<Self> {
        Ok(Servers {
            postgres: PostgresServer::start_with(&[&DURABLE[..], settings].concat())?,
            broker: None,
            redis: None,
        })
    }

    pub fn redis(&self) -> Option<&RedisServer> {
        self.redis.as_ref()
    }

    pub fn broker_url(&self) -> Result<String> {
        let broker = self.broker.as_ref().context("RabbitMQ was not started")?;
        Ok(broker.url())
    }
}

/// Opens a pool of connections.
pub fn pool(url: &str) -> Result<Pool> {
    let manager = Manager::new(url.parse()?, NoTls);
    Ok(Pool::builder(manager).max_size(POOL).build()?)
}
