//! Store methods of schedules.

use async_trait::async_trait;
pub use turno_api::schedule::*;

use crate::error::Result;

/// Store methods of schedules.
#[async_trait]
pub trait ScheduleStore {
    /// Returns the store's clock and the last tick of a schedule. A new schedule begins now, without past ticks.
    async fn schedule_state(&self, name: &str) -> Result<ScheduleState>;

    /// Advances a schedule to a tick and pushes its item, in one step, unless another instance has done so.
    async fn schedule_tick(&self, ask: &ScheduleTick) -> Result<TickOutcome>;
}
