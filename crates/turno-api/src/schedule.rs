//! Schedules: rules that push items at certain times.

use jiff::Timestamp;

use crate::ids::ItemId;
use crate::inbox::NewItem;

/// Outcome of `ScheduleStore::schedule_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleState {
    /// The store's clock.
    pub now: Timestamp,
    /// The last tick, or when the schedule began.
    pub last: Timestamp,
}

/// Parameters of `ScheduleStore::schedule_tick`.
#[derive(Debug, Clone)]
pub struct ScheduleTick {
    /// The schedule.
    pub name: String,
    /// The tick.
    pub tick: Timestamp,
    /// The queue of its item.
    pub queue: String,
    /// The item; `None` if the tick is skipped.
    pub item: Option<NewItem>,
}

/// Outcome of `ScheduleStore::schedule_tick`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickOutcome {
    /// This call made the tick; the item that it pushed.
    Ticked(Option<ItemId>),
    /// Another instance made this tick or a later one.
    Already,
}
