//! Periodic work: each tick of a schedule is pushed once, no matter how many instances run it.
//!
//! ```no_run
//! # async fn example() -> turno::Result<()> {
//! use turno::Turno;
//! use turno::schedule::Missed;
//!
//! let turno = Turno::connect("postgres://localhost/app").await?;
//! // In every instance; a worker of the queue "cleanup" does the work.
//! turno
//!     .schedule("cleanup", "0 3 * * *")
//!     .time_zone("America/Mexico_City")
//!     .missed(Missed::CatchUp)
//!     .run(std::future::pending())
//!     .await?;
//! # Ok(()) }
//! ```

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::time::Instant;

use crate::Turno;
use crate::check;
use crate::error::{Error, Kind, Result};
use crate::inbox::{Item, wake_name};
use crate::store::{NewItem, ScheduleTick, TickOutcome};

/// How late a tick may be before it counts as missed.
const ON_TIME: Duration = Duration::from_secs(60);
/// Interval at which a sleeping schedule compares this machine's clock: clocks are adjusted, and machines resume from suspend.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(60);
/// Maximum difference between the time slept and this machine's clock.
const CLOCK_STEP: Duration = Duration::from_secs(2);
/// Pause before the next attempt if the store is unavailable.
const RETRY: Duration = Duration::from_secs(1);

/// What happens to ticks that were due while no instance was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Missed {
    /// They are skipped. This is the default.
    #[default]
    Skip,
    /// Each one is pushed, oldest first.
    CatchUp,
}

/// A schedule. It does nothing until [`Schedule::run`] is called.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before run"]
pub struct Schedule {
    turno: Turno,
    name: String,
    cron: String,
    queue: Option<String>,
    time_zone: String,
    item: Item,
    missed: Missed,
}

impl Schedule {
    pub(crate) fn new(turno: Turno, name: String, cron: String) -> Self {
        Schedule {
            turno,
            name,
            cron,
            queue: None,
            time_zone: "UTC".to_owned(),
            item: Item::new(&()),
            missed: Missed::default(),
        }
    }

    /// Sets the queue of its items. Default: the queue with the schedule's own name.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets what each tick pushes: a reference to a payload, or an [`Item`] with options. Default: the payload `null`.
    pub fn item(mut self, item: impl Into<Item>) -> Self {
        self.item = item.into();
        self
    }

    /// Sets the time zone of the pattern, such as `America/Mexico_City`. Default: UTC.
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = name.into();
        self
    }

    /// Sets what happens to ticks that were due while no instance was running. Default: they are skipped.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Pushes an item at each tick until `shutdown` resolves. Run it in every instance: each tick is pushed once.
    ///
    /// Cancel-safe: dropping the future stops the schedule.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid. While the store is unavailable, it retries every second.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let cleanup = turno.inbox("cleanup");
    /// let first_tick = async {
    ///     let items = cleanup.claim().wait(Duration::from_secs(10)).take().await;
    ///     assert_eq!(items.map(|items| items.len()).ok(), Some(1));
    /// };
    /// turno.schedule("cleanup", "* * * * * *").run(first_tick).await?; // every second
    /// # Ok(()) }
    /// ```
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let plan = self.plan()?;
        tokio::select! {
            () = shutdown => Ok(()),
            never = self.keep_ticking(&plan) => match never {},
        }
    }

    /// Pushes what is due, and returns the time until the next tick. [`Schedule::run`] calls it for you.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let pause = turno.schedule("cleanup", "* * * * *").tick().await?; // every minute
    /// assert!(pause <= Duration::from_secs(60));
    /// let error = turno.schedule("cleanup", "every minute").tick().await.unwrap_err();
    /// assert_eq!(error.field(), Some("cron"));
    /// # Ok(()) }
    /// ```
    pub async fn tick(&self) -> Result<Duration> {
        self.tick_now(&self.plan()?).await
    }

    async fn keep_ticking(&self, plan: &Plan) -> std::convert::Infallible {
        loop {
            let pause = self.tick_now(plan).await.unwrap_or_else(|error| {
                tracing::warn!(%error, schedule = self.name, "the schedule could not be looked at; trying again");
                RETRY
            });
            sleep_by_clock(pause.min(self.turno.settings().idle_poll_max)).await;
        }
    }

    async fn tick_now(&self, plan: &Plan) -> Result<Duration> {
        let store = self.turno.store();
        loop {
            let state = store.schedule_state(&self.name).await?;
            let next = plan.after(state.last)?;
            if next > state.now {
                return Ok(between(state.now, next));
            }
            let (tick, item) = match self.missed {
                Missed::CatchUp => (next, true),
                // Only the last due tick can still be on time.
                Missed::Skip => {
                    let last = plan.before(state.now)?.max(next);
                    (last, between(last, state.now) <= ON_TIME)
                }
            };
            let ask = ScheduleTick {
                name: self.name.clone(),
                tick,
                queue: plan.queue.clone(),
                item: item.then(|| plan.item.clone()),
            };
            let TickOutcome::Ticked(pushed) = store.schedule_tick(&ask).await? else {
                continue;
            };
            if pushed.is_some() {
                store.wakers().wake(&wake_name(&plan.queue));
            }
            if !item || tick > next {
                tracing::warn!(
                    schedule = self.name,
                    since = %next,
                    "ticks were missed while no instance ran, and are skipped; `missed` says what to do with them"
                );
            }
        }
    }

    fn plan(&self) -> Result<Plan> {
        check::name("schedule", &self.name)?;
        let queue = self.queue.clone().unwrap_or_else(|| self.name.clone());
        check::queue(&queue)?;
        let item = self.item.clone();
        let item = item.into_checked(self.turno.settings().max_payload)?;
        let cron = CronParser::builder()
            .seconds(Seconds::Optional)
            .build()
            .parse(&self.cron)
            .map_err(|error| {
                Error::caused(
                    Kind::invalid("cron"),
                    format!("cron is {:?}, which is no pattern ({error}): it looks like \"0 3 * * *\", for three in the morning", self.cron),
                    error,
                )
            })?;
        let zone = TimeZone::get(&self.time_zone).map_err(|error| {
            Error::caused(
                Kind::invalid("time_zone"),
                format!(
                    "time_zone {:?} is not known here ({error}): it looks like America/Mexico_City",
                    self.time_zone
                ),
                error,
            )
        })?;
        let plan = Plan {
            cron,
            zone,
            queue,
            item,
        };
        // A pattern that never matches is reported now, and not at the time when it should have matched.
        plan.after(crate::clock::machine())?;
        Ok(plan)
    }
}

/// A schedule whose arguments are valid.
#[derive(Debug)]
struct Plan {
    cron: Cron,
    zone: TimeZone,
    queue: String,
    item: NewItem,
}

impl Plan {
    fn after(&self, time: Timestamp) -> Result<Timestamp> {
        self.cron
            .find_next_occurrence(&time.to_zoned(self.zone.clone()), false)
            .map(|next| next.timestamp())
            .map_err(no_tick)
    }

    /// Returns the last tick that is not after a time.
    fn before(&self, time: Timestamp) -> Result<Timestamp> {
        self.cron
            .find_previous_occurrence(&time.to_zoned(self.zone.clone()), true)
            .map(|last| last.timestamp())
            .map_err(no_tick)
    }
}

fn no_tick(error: croner::errors::CronError) -> Error {
    Error::caused(
        Kind::invalid("cron"),
        format!("cron never comes round ({error}): choose a day that exists"),
        error,
    )
}

/// Sleeps, but returns early if this machine's clock was adjusted or stood still: the caller then reads the store's clock.
async fn sleep_by_clock(pause: Duration) {
    let (began, clock) = (Instant::now(), crate::clock::machine());
    loop {
        let left = pause.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_AT_CLOCK)).await;
        let by_clock = between(clock, crate::clock::machine());
        if by_clock.abs_diff(began.elapsed()) > CLOCK_STEP {
            return;
        }
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}
