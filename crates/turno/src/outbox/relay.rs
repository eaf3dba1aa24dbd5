//! The relay: publishes the events of committed transactions.

mod batch;
mod breaker;
mod destination;
mod leader;
mod pipeline;
mod rest;
mod routes;
mod source;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use self::breaker::Breaker;
use self::pipeline::{Counts, Pipeline};
use self::routes::Routes;
pub(super) use self::source::{Source, TableSource};
use super::Outbox;
use crate::backoff::Backoff;
use crate::check;
use crate::error::{Error, Result};
use crate::shutdown;
use crate::sink::Sink;
use crate::store::{Archive, OnDead, Order};

/// Default of [`Relay::batch`].
const BATCH: u32 = 50;
/// Default of [`Relay::max_attempts`]. With the pauses of [`BACKOFF`] the last attempt is about eight hours after the first one.
const MAX_ATTEMPTS: u32 = 20;
/// Default of [`Relay::lease`].
const LEASE: Duration = Duration::from_secs(15);
/// Default of [`Relay::backoff`].
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60 * 60));
/// Default of [`Relay::outage_backoff`].
const OUTAGE_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(20));
/// Default of [`Relay::lock_id`].
const LOCK_ID: i64 = 42;

/// How many relays publish, and in what order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// One relay at a time, in the order of emission. The others wait to take over.
    Single,
    /// Any number of relays, roughly in the order of emission, without a guarantee.
    Parallel,
    /// Any number of relays. The events of one ordering key are published one after the other, in order.
    #[default]
    Ordered,
}

impl Mode {
    pub(super) fn order(self) -> Order {
        match self {
            Mode::Single | Mode::Parallel => Order::AsEmitted,
            Mode::Ordered => Order::ByKey,
        }
    }

    /// Returns the mode as text: `single`, `parallel` or `ordered`.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Single => "single",
            Mode::Parallel => "parallel",
            Mode::Ordered => "ordered",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        [Mode::Single, Mode::Parallel, Mode::Ordered]
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| Error::invalid("mode", "mode must be single, parallel or ordered"))
    }
}

/// Publishes events to a sink. Nothing happens before [`Relay::run`].
///
/// Events are published at least once: if a relay crashes after it has published a batch and before it has stored that, another
/// relay publishes the batch again, marked as possible duplicates. An outage of the sink loses no event and counts no attempt: the
/// relay retries with one event after growing pauses, or when the sink asks for it (`Retry-After`). If only the destination of one
/// type is unavailable, such as a full queue, events of that type are deferred in the same way, and the others are published.
#[derive(Debug)]
#[must_use = "nothing happens before run"]
pub struct Relay {
    pub(super) outbox: Outbox,
    source: Source,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) batch: u32,
    max_attempts: Option<u32>,
    pub(super) lease: Duration,
    pub(super) poll: Duration,
    pub(super) archive: Archive,
    pub(super) lock_id: i64,
    pub(super) backoff: Backoff,
    outage_backoff: Backoff,
    on_dead: OnDead,
    on_dead_of: BTreeMap<String, OnDead>,
}

/// Report of a relay that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RelayReport {
    /// Number of events that were published and stored as such.
    pub sent: u64,
    /// Number of events that were stored as dispatched and not published, because the sink drops them.
    pub skipped: u64,
    /// Number of attempts that the sink refused.
    pub refused: u64,
    /// Number of events that became dead by a refusal.
    pub dead: u64,
    /// Number of events given back, because of an outage of the sink or the shutdown.
    pub returned: u64,
    /// Number of events that another relay had taken over.
    pub stale: u64,
    /// Number of outages of the sink.
    pub outages: u64,
}

impl Relay {
    pub(super) fn new(outbox: Outbox, sink: Arc<dyn Sink>) -> Self {
        Relay {
            name: outbox.turno().worker_name(),
            poll: outbox.turno().settings().idle_poll_max,
            outbox,
            source: Source::Outbox,
            sink,
            mode: Mode::default(),
            batch: BATCH,
            max_attempts: None,
            lease: LEASE,
            archive: Archive::default(),
            lock_id: LOCK_ID,
            backoff: BACKOFF,
            outage_backoff: OUTAGE_BACKOFF,
            on_dead: OnDead::default(),
            on_dead_of: BTreeMap::new(),
        }
    }

    pub(super) fn source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Sets how many relays publish at once, and in what order. Default: [`Mode::Ordered`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets how many events are published at once, up to 1000. Default: 50. As many again are claimed ahead.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch;
        self
    }

    /// Sets the number of refusals after which an event is dead, 1 to 1000. Default: 20, which takes about eight hours with the
    /// default [backoff](Relay::backoff). For an [outbox table](super::OutboxTable), default: that of its adoption.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets the pause after the first refusal, which doubles with each further one, and the longest pause. Default: one second
    /// and one hour. Both are jittered.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = Backoff::new(first, longest);
        self
    }

    /// Sets the pause after the first outage of the sink, which doubles with each further one until the sink responds, and the
    /// longest pause. Default: 100 milliseconds and 20 seconds. Both are jittered. Outages count no attempts.
    pub fn outage_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.outage_backoff = Backoff::new(first, longest);
        self
    }

    /// Sets the lease of claimed events: other relays take them over after this time without an extension. Default: 15 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the longest pause between two polls of an idle relay. Default:
    /// [`Settings::idle_poll_max`](crate::Settings::idle_poll_max), 15 minutes. Emissions notify the relay; where notifications do
    /// not arrive, as behind a pooler, it polls every few seconds.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Sets what a dead event does to the later events of its ordering key. Default: [`OnDead::Skip`].
    pub fn on_dead(mut self, choice: OnDead) -> Self {
        self.on_dead = choice;
        self
    }

    /// Sets [`Relay::on_dead`] for the events of one type. Default: that of all types.
    pub fn on_dead_of_type(mut self, kind: impl Into<String>, choice: OnDead) -> Self {
        self.on_dead_of.insert(kind.into(), choice);
        self
    }

    /// Sets whether dispatched events are archived. Default: only their ids are kept.
    pub fn archive(mut self, archive: Archive) -> Self {
        self.archive = archive;
        self
    }

    /// Sets the number of the advisory lock in [`Mode::Single`]. Default: 42.
    pub fn lock_id(mut self, id: i64) -> Self {
        self.lock_id = id;
        self
    }

    /// Sets the relay's name, for lists and history. Default: host and process.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Publishes until `shutdown` resolves. Then the relay finishes and records what it is publishing, and gives back the rest.
    ///
    /// Dropping the future stops at once. The events that were being published are published again after their claim has
    /// expired.
    ///
    /// # Errors
    /// Returns an error if an option is invalid or an outbox table is not adopted. While the store or the sink is unavailable,
    /// the relay retries.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::sync::Arc;
    /// use turno::outbox::{Event, Mode};
    /// use turno::sink::Stdout;
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// outbox.emit(Event::new("TicketCreatedEvent", &7)).await?;
    /// # let shutdown = async { while outbox.stats().await.unwrap().dispatched == 0 { tokio::time::sleep(std::time::Duration::from_millis(5)).await } };
    /// // `shutdown` is a future, such as a signal.
    /// let report = outbox.relay(Arc::new(Stdout::new())).mode(Mode::Ordered).batch(100).run(shutdown).await?;
    /// assert_eq!((report.sent, report.refused), (1, 0));
    /// # Ok(()) }
    /// ```
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<RelayReport> {
        check::name("relay", &self.name)?;
        check::batch(self.batch)?;
        check::lease(self.lease)?;
        check::delay("backoff", self.backoff.longest)?;
        check::delay("outage_backoff", self.outage_backoff.longest)?;
        let max_attempts = self.max_attempts.unwrap_or(MAX_ATTEMPTS);
        if max_attempts == 0 || max_attempts > check::MAX_ATTEMPTS.into() {
            return Err(Error::invalid(
                "max_attempts",
                format!("max_attempts must be between 1 and {}", check::MAX_ATTEMPTS),
            ));
        }
        if let Source::Table(table) = &mut self.source {
            table.max_attempts = self.max_attempts;
            // While the store is unavailable, the claims look the table up.
            let found = table.table(&**self.outbox.turno().store()).await;
            found
                .map(drop)
                .or_else(|error| match error.is_unavailable() {
                    true => Ok(()),
                    false => Err(error),
                })?;
        }
        let counts = Counts::default();
        let breaker = Breaker::new(self.outage_backoff);
        let routes = Routes::new(self.outage_backoff);
        let pipeline = || Pipeline::new(&self, &counts, &breaker, &routes);
        let stop = CancellationToken::new();
        let publish = async {
            match self.mode {
                Mode::Parallel | Mode::Ordered => {
                    pipeline().run(&stop).await;
                }
                Mode::Single => self.alone(pipeline, &stop).await,
            }
        };
        shutdown::cancel_when(shutdown, &stop, publish).await;
        self.sink.close().await;
        Ok(counts.report())
    }

    /// Publishes while it is the leader. It gives up the leadership when there is nothing to publish, because the session that
    /// holds it must be checked all the time.
    async fn alone<'a>(&self, new_pipeline: impl Fn() -> Pipeline<'a>, stop: &CancellationToken) {
        while let Some(alone) = leader::alone(self, stop).await {
            tracing::info!(relay = self.name, "this relay is the leader");
            let pipeline = new_pipeline();
            let work = async {
                self.recover(stop).await;
                pipeline.run(stop).await
            };
            let rest = tokio::select! {
                rest = work => rest,
                () = alone.ended() => {
                    tracing::warn!(relay = self.name, "this relay is not the leader any more; it stops until it is elected again");
                    None
                }
            };
            alone.give_up().await;
            if let Some(rest) = rest {
                tracing::debug!(relay = self.name, "nothing to publish; resting");
                rest.over(self, stop).await;
            }
        }
    }

    /// Takes over the events that the previous leader had in flight, without waiting for the end of its claims.
    async fn recover(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.source.recover(&**self.outbox.turno().store()).await {
                Ok(0) => return,
                Ok(many) => {
                    tracing::info!(many, "events were in flight; they are published again");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "the outbox is unavailable; retrying");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    pub(super) fn max_attempts_or_default(&self) -> u32 {
        let of_source = || self.source.max_attempts();
        self.max_attempts.or_else(of_source).unwrap_or(MAX_ATTEMPTS)
    }

    pub(super) fn on_dead_of(&self, kind: &str) -> OnDead {
        self.on_dead_of.get(kind).copied().unwrap_or(self.on_dead)
    }
}
