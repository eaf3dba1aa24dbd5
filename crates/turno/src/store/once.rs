//! Store methods of once.

use std::time::Duration;

use async_trait::async_trait;
pub use turno_api::ids::OnceClaim;
pub use turno_api::once::{
    AfterUnknown, ONCE_WAITER_ALIVE, OnceBegin, OnceComplete, OnceExtend, OnceForget, OnceGrant,
    OnceList, OnceOutcome, OnceRelease, OnceResolve, OnceResolved, OnceRun, OnceSettled, OnceState,
    OnceView, Quota, Released, UNKNOWN_KEPT, WhileInFlight,
};

use crate::error::Result;

/// Store methods of once.
#[async_trait]
pub trait OnceStore {
    /// Begins the run of a key, or returns the state of the key.
    async fn once_begin(&self, ask: &OnceBegin) -> Result<OnceOutcome>;

    /// [`OnceStore::once_begin`] for a store that waits for the answer of a run in flight itself: in flight, if there was none
    /// in time. Default: `None`, the library waits.
    async fn once_begin_waiting(
        &self,
        ask: &OnceBegin,
        wait: Duration,
    ) -> Result<Option<OnceOutcome>> {
        let _ = (ask, wait);
        Ok(None)
    }

    /// Ends a run with its answer. Idempotent: the first answer stays.
    async fn once_complete(&self, ask: &OnceComplete) -> Result<OnceSettled>;

    /// Ends a run without an answer.
    async fn once_release(&self, ask: &OnceRelease) -> Result<OnceSettled>;

    /// Extends a run.
    async fn once_extend(&self, ask: &OnceExtend) -> Result<OnceSettled>;

    /// Returns a key and its state.
    async fn once_status(&self, key: &str) -> Result<Option<OnceView>>;

    /// Returns one page of the keys, in order, without their answers.
    async fn once_list(&self, ask: &OnceList) -> Result<Vec<OnceView>>;

    /// Deletes a key that is not in flight, and records it. False if there is none.
    async fn once_forget(&self, ask: &OnceForget) -> Result<bool>;

    /// Stores the answer of an unknown key, and records it. The claim of the unknown run is stale from then on.
    async fn once_resolve(&self, ask: &OnceResolve) -> Result<OnceResolved>;
}
