//! The schedules' part of the seam: who pushes a tick, and that nobody else does.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{ItemId, NewItem};
use crate::error::Result;

/// The verbs of schedules.
#[async_trait]
pub trait ScheduleStore {
    /// The store's clock, and how far a schedule has got. One that is new begins now: it has no past to catch up with.
    async fn schedule_state(&self, name: &str) -> Result<ScheduleState>;

    /// Moves a schedule on to a tick and pushes its item, in one step; unless it is there already.
    async fn schedule_tick(&self, ask: &ScheduleTick) -> Result<TickOutcome>;
}

/// Answer of [`ScheduleStore::schedule_state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleState {
    /// The store's clock.
    pub now: Timestamp,
    /// The last tick, or when the schedule began.
    pub last: Timestamp,
}

/// Parameters of [`ScheduleStore::schedule_tick`].
#[derive(Debug, Clone)]
pub struct ScheduleTick {
    /// The schedule.
    pub name: String,
    /// Which tick.
    pub tick: Timestamp,
    /// Where its item goes.
    pub queue: String,
    /// The item; none, if the tick is passed over.
    pub item: Option<NewItem>,
}

/// Answer of [`ScheduleStore::schedule_tick`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickOutcome {
    /// It was ours.
    Ticked(Option<ItemId>),
    /// Another instance had it, or a later one.
    Already,
}
