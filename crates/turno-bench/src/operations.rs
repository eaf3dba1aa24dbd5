//! Operations of Turno and of a peer each, from the call until their effect is there. Benchmarks of latency, of cost and of growth
//! run them.

mod background;
mod inbox;
mod locks;
mod once;
mod outbox;
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;

pub use self::servers::Servers;
use crate::rate::{AsyncWork, Run};

/// Size of the connection pool of each peer: Turno's default.
const POOL: usize = 16;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Acquire and release a lock.
    Lock,
    /// Push an item, until a handler has it.
    Inbox,
    /// Emit an event, until a consumer has it.
    Outbox,
    /// Begin and complete a request.
    Once,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Lock, Kind::Inbox, Kind::Outbox, Kind::Once];

    /// Name in the titles of tables.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Lock => "acquire + release a lock",
            Kind::Inbox => "push, until a handler has the item",
            Kind::Outbox => "emit, until a consumer has the event",
            Kind::Once => "begin + complete a request",
        }
    }
}

/// An operation that can run many times at once.
#[async_trait]
pub trait Operation: Send + Sync {
    /// Runs it, and returns the time at which its effect was there. No two runs have the same number.
    async fn run(&self, number: u64) -> Result<Instant>;

    /// Ends its background tasks, and returns their error if they had one.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// An operation with its name, and the number of its next run.
#[derive(Clone)]
pub struct Subject {
    pub name: &'static str,
    pub operation: Arc<dyn Operation>,
    next: Arc<AtomicU64>,
}

impl Subject {
    pub fn new(name: &'static str, operation: impl Operation + 'static) -> Self {
        Subject {
            name,
            operation: Arc::new(operation),
            next: Arc::default(),
        }
    }

    /// Opens Turno on a new database. Events go to the broker.
    pub async fn turno(kind: Kind, servers: &Servers) -> Result<Self> {
        let url = servers.postgres.create_database();
        match kind {
            Kind::Outbox => outbox::turno(&url, &servers.broker_url()?).await,
            _ => Self::turno_in(kind, &url).await,
        }
    }

    /// Opens Turno on a database. Events go to a sink in this process.
    pub async fn turno_in(kind: Kind, url: &str) -> Result<Self> {
        match kind {
            Kind::Lock => locks::turno(url).await,
            Kind::Inbox => inbox::turno(url).await,
            Kind::Outbox => outbox::turno_in_process(url).await,
            Kind::Once => once::turno(url).await,
        }
    }

    /// Opens the statements that a person would write, on a database. Events go to this process.
    pub async fn hand_written(kind: Kind, url: &str) -> Result<Self> {
        match kind {
            Kind::Lock => locks::hand_written(url).await,
            Kind::Inbox => inbox::hand_written(url).await,
            Kind::Outbox => outbox::hand_written_in_process(url).await,
            Kind::Once => once::hand_written(url).await,
        }
    }

    /// Opens what the latency of Turno is compared with.
    pub async fn peer(kind: Kind, servers: &Servers) -> Result<Self> {
        match kind {
            Kind::Lock => locks::peer(servers).await,
            Kind::Outbox => {
                let url = servers.postgres.create_database();
                outbox::hand_written(&url, &servers.broker_url()?).await
            }
            Kind::Inbox | Kind::Once => {
                Self::hand_written(kind, &servers.postgres.create_database()).await
            }
        }
    }

    pub fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the rate per second of this many callers, each of which waits for its operation before it begins the next one.
    pub async fn closed_loop(&self, callers: usize, run: &Run) -> Result<f64> {
        run.rate(vec![self.clone(); callers], Again).await
    }
}

#[derive(Clone)]
struct Again;

impl AsyncWork<Subject> for Again {
    async fn once(&self, subject: &mut Subject) -> Result<()> {
        subject.operation.run(subject.next_number()).await?;
        Ok(())
    }
}
