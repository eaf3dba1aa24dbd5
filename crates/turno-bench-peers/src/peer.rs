//! What is asked of every peer, in the peer's own best way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What to measure, and with how much.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// A fresh private database: `postgres://…`, or `sqlite:FILE`.
    #[arg(long)]
    pub store: String,
    /// How many items.
    #[arg(long, default_value_t = 50_000)]
    pub items: usize,
    /// Bytes of an item's payload, as JSON.
    #[arg(long, default_value_t = 100)]
    pub payload: usize,
    /// Items in one call, of those that push and those that claim.
    #[arg(long, default_value_t = 500)]
    pub batch: usize,
    /// How many consume at once.
    #[arg(long, default_value_t = 4)]
    pub consumers: usize,
    #[arg(long, value_enum, default_value_t = Mode::Drain)]
    pub mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Store all items with the peer's batch call, from one client.
    Push,
    /// Handle items stored before, in batches, until all are durably done.
    Drain,
    /// The same, but every consumer claims and completes one item at a time.
    Single,
    /// An idle worker: how long from pushing one item until it is handled.
    Latency,
}

impl Plan {
    /// How many consume at once.
    pub fn workers(&self) -> usize {
        match self.mode {
            Mode::Push | Mode::Drain | Mode::Single => self.consumers,
            Mode::Latency => 1,
        }
    }

    /// How many items a consumer takes at once.
    pub fn claim(&self) -> usize {
        match self.mode {
            Mode::Push | Mode::Drain => self.batch,
            Mode::Single | Mode::Latency => 1,
        }
    }

    /// The usual words about batches and consumers.
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
    /// As JSON it has so many bytes, but for the shortest.
    pub fn of(bytes: usize) -> Self {
        let frame = r#"{"body":""}"#.len();
        Item {
            body: "x".repeat(bytes.saturating_sub(frame)),
        }
    }
}

/// The handler: it does nothing but count.
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
    /// Also answers when each handler began.
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

    /// So many items are being handled now.
    pub fn handle(&self, items: usize) {
        // Nobody listens but when latency is measured, and a listener that has gone is no matter.
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

/// Workers that run until they are told to stop.
pub type Workers = JoinSet<Result<()>>;

/// A queue, used as its documentation says and with its best settings.
pub trait Peer: Sized {
    /// Connects, and makes the peer's tables.
    async fn open(plan: &Plan) -> Result<Self>;

    /// Stores items durably, with one call.
    async fn push(&self, items: Vec<Item>) -> Result<()>;

    /// How many items are not durably done yet.
    async fn left(&self) -> Result<u64>;

    /// Lets the database put itself in order between pushing and draining.
    async fn settle(&self) -> Result<()>;

    /// Starts workers, as many as the plan says.
    async fn start(&self, tally: &Tally, stop: &CancellationToken) -> Result<Workers>;

    /// What it was measured with.
    fn note(&self) -> String;

    /// Ends what must not outlive the measurement.
    async fn close(self) -> Result<()> {
        Ok(())
    }
}
