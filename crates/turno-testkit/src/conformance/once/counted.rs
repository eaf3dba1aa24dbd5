//! A store wrapper that counts calls, or waits by itself as a server does, and else delegates to another store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use turno::store::*;
use turno::{Result, Settings, Turno, Wakers};
use uuid::Uuid;

use crate::conformance::TestStore;

#[derive(Debug)]
struct Counted {
    store: Arc<dyn Store>,
    begins: Arc<AtomicUsize>,
    waits: Waits,
}

/// How a store waits by itself.
#[derive(Debug, Clone)]
pub(in crate::conformance) enum Waits {
    /// It does not wait.
    Never,
    /// It waits for this long, and then runs the call.
    For(Duration),
    /// It runs the call, adds a permit here, and the response is lost.
    Undelivered(Arc<Semaphore>),
}

impl Waits {
    /// Runs a call accordingly.
    async fn until<T>(&self, does: impl Future<Output = Result<T>> + Send) -> Result<Option<T>> {
        match self {
            Waits::Never => Ok(None),
            Waits::For(long) => {
                tokio::time::sleep(*long).await;
                does.await.map(Some)
            }
            Waits::Undelivered(done) => {
                does.await?;
                done.add_permits(1);
                std::future::pending().await
            }
        }
    }
}

impl TestStore {
    /// Creates an instance on a store that waits by itself.
    pub(in crate::conformance) async fn waiting(&self, waits: Waits) -> Turno {
        let store = Counted {
            store: self.turno().await.store().clone(),
            begins: Arc::default(),
            waits,
        };
        Turno::with_store(Arc::new(store), Settings::default())
    }

    /// Creates an instance with a counter of its begin calls to the store.
    pub(in crate::conformance) async fn counted(&self) -> (Turno, Arc<AtomicUsize>) {
        let begins = Arc::new(AtomicUsize::new(0));
        let store = Counted {
            store: self.turno().await.store().clone(),
            begins: begins.clone(),
            waits: Waits::Never,
        };
        let turno = Turno::with_store(Arc::new(store), Settings::default());
        (turno, begins)
    }
}

#[async_trait]
impl OnceStore for Counted {
    async fn once_begin(&self, ask: &OnceBegin) -> Result<OnceOutcome> {
        self.begins.fetch_add(1, Ordering::SeqCst);
        self.store.once_begin(ask).await
    }
    async fn once_begin_waiting(
        &self,
        ask: &OnceBegin,
        _: Duration,
    ) -> Result<Option<OnceOutcome>> {
        self.waits.until(self.store.once_begin(ask)).await
    }
    async fn once_complete(&self, ask: &OnceComplete) -> Result<OnceSettled> {
        self.store.once_complete(ask).await
    }
    async fn once_release(&self, ask: &OnceRelease) -> Result<OnceSettled> {
        self.store.once_release(ask).await
    }
    async fn once_extend(&self, ask: &OnceExtend) -> Result<OnceSettled> {
        self.store.once_extend(ask).await
    }
    async fn once_status(&self, key: &str) -> Result<Option<OnceView>> {
        self.store.once_status(key).await
    }
    async fn once_list(&self, ask: &OnceList) -> Result<Vec<OnceView>> {
        self.store.once_list(ask).await
    }
    async fn once_forget(&self, ask: &OnceForget) -> Result<bool> {
        self.store.once_forget(ask).await
    }
    async fn once_resolve(&self, ask: &OnceResolve) -> Result<OnceResolved> {
        self.store.once_resolve(ask).await
    }
}

// All other calls are delegated.

#[async_trait]
impl InboxStore for Counted {
    async fn inbox_push(&self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        self.store.inbox_push(ask).await
    }
    async fn inbox_claim(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
        self.store.inbox_claim(ask).await
    }
    async fn inbox_claim_waiting(
        &self,
        ask: &InboxClaim,
        _: Duration,
    ) -> Result<Option<Vec<ClaimedItem>>> {
        self.waits.until(self.store.inbox_claim(ask)).await
    }
    async fn inbox_complete(&self, ask: &InboxComplete) -> Result<Settled> {
        self.store.inbox_complete(ask).await
    }
    async fn inbox_turn(&self, ask: &InboxTurn) -> Result<(Settled, Vec<ClaimedItem>)> {
        self.store.inbox_turn(ask).await
    }
    async fn inbox_fail(&self, ask: &InboxFail) -> Result<Settled> {
        self.store.inbox_fail(ask).await
    }
    async fn inbox_give_back(&self, ask: &InboxGiveBack) -> Result<Settled> {
        self.store.inbox_give_back(ask).await
    }
    async fn inbox_extend(&self, ask: &InboxExtend) -> Result<Settled> {
        self.store.inbox_extend(ask).await
    }
    async fn inbox_requeue(&self, ask: &InboxFailedItems) -> Result<u64> {
        self.store.inbox_requeue(ask).await
    }

    async fn inbox_discard(&self, ask: &InboxFailedItems) -> Result<u64> {
        self.store.inbox_discard(ask).await
    }
    async fn inbox_reset(&self, ask: &InboxReset) -> Result<u64> {
        self.store.inbox_reset(ask).await
    }
    async fn inbox_stats(&self, ask: &InboxStats) -> Result<Vec<QueueStats>> {
        self.store.inbox_stats(ask).await
    }
    async fn inbox_list(&self, ask: &InboxList) -> Result<Vec<ItemView>> {
        self.store.inbox_list(ask).await
    }
    async fn inbox_settings(&self, queue: &str) -> Result<QueueSettings> {
        self.store.inbox_settings(queue).await
    }
    async fn inbox_configure(&self, ask: &InboxConfigure) -> Result<QueueSettings> {
        self.store.inbox_configure(ask).await
    }
    async fn inbox_wait(&self, queue: &str) -> Result<Option<Duration>> {
        self.store.inbox_wait(queue).await
    }
}

#[async_trait]
impl OutboxStore for Counted {
    async fn outbox_emit(&self, ask: &OutboxEmit) -> Result<Vec<Uuid>> {
        self.store.outbox_emit(ask).await
    }
    async fn outbox_claim(&self, ask: &OutboxClaim) -> Result<Vec<ClaimedEvent>> {
        self.store.outbox_claim(ask).await
    }
    async fn outbox_settle(&self, ask: &OutboxSettle) -> Result<OutboxSettled> {
        self.store.outbox_settle(ask).await
    }
    async fn outbox_recover(&self) -> Result<u64> {
        self.store.outbox_recover().await
    }
    async fn outbox_lead(&self, ask: &OutboxLead) -> Result<Leadership> {
        self.store.outbox_lead(ask).await
    }
    async fn outbox_stats(&self) -> Result<OutboxStats> {
        self.store.outbox_stats().await
    }
    async fn outbox_list(&self, ask: &OutboxList) -> Result<Vec<EventView>> {
        self.store.outbox_list(ask).await
    }
    async fn outbox_find(&self, id: Uuid) -> Result<Option<EventView>> {
        self.store.outbox_find(id).await
    }
    async fn outbox_requeue(&self, ask: &OutboxRequeue) -> Result<u64> {
        self.store.outbox_requeue(ask).await
    }
    async fn outbox_discard(&self, ask: &OutboxDiscard) -> Result<u64> {
        self.store.outbox_discard(ask).await
    }
}

#[async_trait]
impl ScheduleStore for Counted {
    async fn schedule_state(&self, name: &str) -> Result<ScheduleState> {
        self.store.schedule_state(name).await
    }
    async fn schedule_tick(&self, ask: &ScheduleTick) -> Result<TickOutcome> {
        self.store.schedule_tick(ask).await
    }
}

#[async_trait]
impl AdoptStore for Counted {
    async fn adopt(&self, ask: &AdoptTable) -> Result<Adoption> {
        self.store.adopt(ask).await
    }
    async fn adopt_print(&self, ask: &AdoptTable) -> Result<String> {
        self.store.adopt_print(ask).await
    }

    async fn adopt_difference(&self, ask: &AdoptTable) -> Result<String> {
        self.store.adopt_difference(ask).await
    }
    async fn adopt_undo(&self, table: &str) -> Result<Adoption> {
        self.store.adopt_undo(table).await
    }
    async fn adopted_acquire(&self, ask: &AdoptedAcquire) -> Result<AdoptedOutcome> {
        self.store.adopted_acquire(ask).await
    }
    async fn adopted_release(&self, ask: &AdoptedRelease) -> Result<AdoptedSettled> {
        self.store.adopted_release(ask).await
    }
    async fn adopted_next(&self, ask: &AdoptedNext) -> Result<Vec<AdoptedRow>> {
        self.store.adopted_next(ask).await
    }
    async fn adopted_cleanup(&self, table: &str, timeout: Duration) -> Result<u64> {
        self.store.adopted_cleanup(table, timeout).await
    }
    async fn adopted_reset(&self, table: &str, which: AdoptedReset) -> Result<u64> {
        self.store.adopted_reset(table, which).await
    }
    async fn adopted_stats(&self, table: &str, user: Option<&str>) -> Result<AdoptedStats> {
        self.store.adopted_stats(table, user).await
    }
    async fn adopted_mark(&self, table: &str, id: &str) -> Result<bool> {
        self.store.adopted_mark(table, id).await
    }
    async fn adopted_unmark(&self, table: &str, id: &str) -> Result<bool> {
        self.store.adopted_unmark(table, id).await
    }
}

impl AccessStore for Counted {}

#[async_trait]
impl Store for Counted {
    fn name(&self) -> &'static str {
        self.store.name()
    }
    async fn migrate(&self) -> Result<Migrated> {
        self.store.migrate().await
    }
    async fn schema_version(&self) -> Result<Option<u32>> {
        self.store.schema_version().await
    }
    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.store.diagnose().await
    }
    async fn lock_acquire(&self, ask: &LockAcquire) -> Result<LockOutcome> {
        self.store.lock_acquire(ask).await
    }
    async fn lock_acquire_waiting(
        &self,
        ask: &LockAcquire,
        _: Duration,
        _: WaitOrder,
    ) -> Result<Option<LockOutcome>> {
        self.waits.until(self.store.lock_acquire(ask)).await
    }
    async fn lock_acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome> {
        self.store.lock_acquire_all(ask).await
    }
    async fn lock_renew(&self, ask: &LockRenew) -> Result<RenewOutcome> {
        self.store.lock_renew(ask).await
    }
    async fn lock_release(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        self.store.lock_release(ask).await
    }
    async fn lock_break(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        self.store.lock_break(ask).await
    }
    async fn lock_wait(&self, ask: &LockWait) -> Result<WaitOutcome> {
        self.store.lock_wait(ask).await
    }
    async fn lock_leave(&self, ask: &LockLeave) -> Result<()> {
        self.store.lock_leave(ask).await
    }
    async fn lock_status(&self, resource: &str) -> Result<LockStatus> {
        self.store.lock_status(resource).await
    }
    async fn lock_list(&self, ask: &LockList) -> Result<Vec<LockHolder>> {
        self.store.lock_list(ask).await
    }
    async fn history(&self, ask: &History) -> Result<Vec<HistoryEntry>> {
        self.store.history(ask).await
    }
    async fn sweep(&self, ask: &Sweep) -> Result<Swept> {
        self.store.sweep(ask).await
    }
    fn waiter_alive(&self) -> Option<Duration> {
        self.store.waiter_alive()
    }
    fn wakers(&self) -> &Arc<Wakers> {
        self.store.wakers()
    }
    async fn close(&self) {
        self.store.close().await
    }
}
