//! Interface that each peer implements, in the peer's own best way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Options of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// A new private database: `postgres://…`, or `sqlite:FILE`.
    #[arg(long)]
    pub store: String,
    /// Number of items.
    #[arg(long, default_value_t = 50_000)]
    pub items: usize,
    /// Size of an item's payload as JSON, in bytes.
    #[arg(long, default_value_t = 100)]
    pub payload: usize,
    /// Number of items per call, for pushing and for claiming.
    #[arg(long, default_value_t = 500)]
    pub batch: usize,
    /// Number of concurrent consumers.
    #[arg(long, default_value_t = 4)]
    pub consumers: usize,
    /// No vacuum and no checkpoint between pushing and draining.
    #[arg(long)]
    pub without_maintenance: bool,
    #[arg(long, value_enum, default_value_t = Mode::Drain)]
    pub mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Store all items with the peer's batch call, from one client.
    Push,
    /// Handle stored items, in batches, until all are durably done.
    Drain,
    /// The same, but each consumer claims and completes one item at a time.
    Single,
    /// Time from pushing one item to an idle worker until it is handled.
    Latency,
}

impl Plan {
    /// Number of concurrent consumers.
    pub fn workers(&self) -> usize {
        match self.mode {
            Mode::Push | Mode::Drain | Mode::Single => self.consumers,
            Mode::Latency => 1,
        }
    }

    /// Number of items that a consumer claims at once.
    pub fn claim(&self) -> usize {
        match self.mode {
            Mode::Push | Mode::Drain => self.batch,
            Mode::Single | Mode::Latency => 1,
        }
    }

    /// Describes batches and consumers.
    pub fn note(&self) -> String {
        match self.mode {
            Mode::Push => format!("batch {}, 1 client", self.batch),
            Mode::Drain => format!("batch {}, {} consumers", self.batch, self.consumers),
            Mode::Single => format!("one at a time, {} consumers", self.workers()),
            Mode::Latency => "1 idle consumer".to_owned(),
        }
    }
}

/// A payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Item {
    body: String,
}

impl Item {
    /// Creates an item that has this many bytes as JSON (at least the size of an empty one).
    pub fn of(bytes: usize) -> Self {
        let frame = r#"{"body":""}"#.len();
        Item {
            body: "x".repeat(bytes.saturating_sub(frame)),
        }
    }
}

/// The handler, which only counts.
#[derive(Clone, Debug)]
pub struct Tally(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    handled: AtomicU64,
    goal: u64,
    reached: Notify,
    moments: mpsc::UnboundedSender<Instant>,
}

impl Tally {
    /// Creates a tally. The receiver gets the time at which each handler began.
    pub fn new(goal: u64) -> (Self, mpsc::UnboundedReceiver<Instant>) {
        let (moments, receiver) = mpsc::unbounded_channel();
        let tally = Tally(Arc::new(Counted {
            handled: AtomicU64::new(0),
            goal,
            reached: Notify::new(),
            moments,
        }));
        (tally, receiver)
    }

    /// Records that this many items are being handled now.
    pub fn handle(&self, items: usize) {
        // There is a receiver only when latency is measured. A closed receiver does not matter.
        let _ = self.0.moments.send(Instant::now());
        let items = items as u64;
        let before = self.0.handled.fetch_add(items, Ordering::Relaxed);
        if before < self.0.goal && before + items >= self.0.goal {
            self.0.reached.notify_one();
        }
    }

    pub fn handled(&self) -> u64 {
        self.0.handled.load(Ordering::Relaxed)
    }

    pub async fn reached(&self) {
        self.0.reached.notified().await;
    }
}

/// Workers that run until they are stopped.
pub type Workers = JoinSet<Result<()>>;

/// A queue, used as its documentation says and with its best settings.
pub trait Peer: Sized {
    /// Connects and creates the peer's tables.
    async fn open(plan: &Plan) -> Result<Self>;

    /// Stores items durably, with one call.
    async fn push(&self, items: Vec<Item>) -> Result<()>;

    /// Returns the number of items that are not durably done.
    async fn left(&self) -> Result<u64>;

    /// Runs the database's maintenance between pushing and draining.
    async fn settle(&self) -> Result<()>;

    /// Starts the plan's number of workers.
    async fn start(&self, tally: &Tally, stop: &CancellationToken) -> Result<Workers>;

    /// Describes the settings of the measurement.
    fn note(&self) -> String;

    /// Stops background tasks, which must not outlive the measurement.
    async fn close(self) -> Result<()> {
        Ok(())
    }
}
