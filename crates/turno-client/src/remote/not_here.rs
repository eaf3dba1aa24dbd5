//! Operations that need a direct connection to a store.

use std::time::Duration;

use async_trait::async_trait;
use turno::store::{
    AccessStore, AdoptStore, AdoptTable, AdoptedAcquire, AdoptedNext, AdoptedOutcome,
    AdoptedRelease, AdoptedReset, AdoptedRow, AdoptedSettled, AdoptedStats, Adoption,
    ScheduleState, ScheduleStore, ScheduleTick, TickOutcome,
};
use turno::{Error, Result};

use super::RemoteStore;

/// The error for an operation that does not work through a server.
pub(super) fn not_here(what: &str) -> Error {
    Error::refused(format!(
        "{what} works on a store, and not through a server: use --store URL"
    ))
}

const ADOPTING: &str = "adopting a table";
const SCHEDULING: &str = "a schedule";

/// Access tokens are managed on the store itself: the trait's defaults return an error.
#[async_trait]
impl AccessStore for RemoteStore {}

#[async_trait]
impl ScheduleStore for RemoteStore {
    async fn schedule_state(&self, _: &str) -> Result<ScheduleState> {
        Err(not_here(SCHEDULING))
    }

    async fn schedule_tick(&self, _: &ScheduleTick) -> Result<TickOutcome> {
        Err(not_here(SCHEDULING))
    }
}

#[async_trait]
impl AdoptStore for RemoteStore {
    async fn adopt(&self, _: &AdoptTable) -> Result<Adoption> {
        Err(not_here(ADOPTING))
    }

    async fn adopt_print(&self, _: &AdoptTable) -> Result<String> {
        Err(not_here(ADOPTING))
    }

    async fn adopt_difference(&self, _: &AdoptTable) -> Result<String> {
        Err(not_here(ADOPTING))
    }

    async fn adopt_undo(&self, _: &str) -> Result<Adoption> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_acquire(&self, _: &AdoptedAcquire) -> Result<AdoptedOutcome> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_release(&self, _: &AdoptedRelease) -> Result<AdoptedSettled> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_next(&self, _: &AdoptedNext) -> Result<Vec<AdoptedRow>> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_cleanup(&self, _: &str, _: Duration) -> Result<u64> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_reset(&self, _: &str, _: AdoptedReset) -> Result<u64> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_stats(&self, _: &str, _: Option<&str>) -> Result<AdoptedStats> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_mark(&self, _: &str, _: &str) -> Result<bool> {
        Err(not_here(ADOPTING))
    }

    async fn adopted_unmark(&self, _: &str, _: &str) -> Result<bool> {
        Err(not_here(ADOPTING))
    }
}
