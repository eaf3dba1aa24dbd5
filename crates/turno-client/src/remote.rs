//! A server as a store of the library.

mod inbox;
mod not_here;
mod once;
mod outbox;
mod queues;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use turno::store::{
    BreakOutcome, Finding, History, HistoryEntry, LockAcquire, LockAcquireAll, LockAllOutcome,
    LockBreak, LockHolder, LockLeave, LockList, LockOutcome, LockRelease, LockRenew, LockStatus,
    LockWait, Migrated, ReleaseOutcome, RenewOutcome, Store, Sweep, Swept, WaitOrder, WaitOutcome,
};
use turno::{Result, Wakers};
use turno_api::admin::SweepRequest;
use turno_api::ids::{LeaseId, Token};
use turno_api::lock::{Acquire, Renew};

use self::not_here::not_here;
use self::queues::Queues;
use crate::{Client, Page};

/// A cursor after every entry: the page has ended leases only, without the locks that are held now.
const LATEST: i64 = i64::MAX;

/// `turno serve` as a store: with it, the library's API works over HTTP.
///
/// The server does the waiting for a lock, for items or for the answer of another run: it responds when the wait is over.
/// The operations that need a direct connection to a store (migrations, relays, adopted tables, schedules, access tokens)
/// return an error that says so.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use turno::{Settings, Turno};
/// use turno_client::{Client, RemoteStore};
///
/// let client = Client::new("https://turno.example")?.token(std::env::var("TURNO_TOKEN")?)?;
/// let turno = Turno::with_store(Arc::new(RemoteStore::new(client)), Settings::default());
/// turno
///     .lock("PRESTAMO/123")
///     .run(async |lease| Ok::<_, std::convert::Infallible>(println!("token {}", lease.token())))
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RemoteStore {
    client: Client,
    /// Never notified: the server sends no notifications. Callers poll, or let the server wait.
    wakers: Arc<Wakers>,
    queues: Queues,
}

impl RemoteStore {
    /// Creates a store from a client.
    pub fn new(client: Client) -> Self {
        RemoteStore {
            client,
            wakers: Arc::default(),
            queues: Queues::default(),
        }
    }

    /// Sets the queue for claims that were not made through this store. The server's paths contain the queue, and a token with a
    /// prefix may settle claims only in the queues of its prefix.
    #[must_use = "it is another store"]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queues = Queues::new(queue.into());
        self
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

#[async_trait]
impl Store for RemoteStore {
    fn name(&self) -> &'static str {
        "server"
    }

    async fn migrate(&self) -> Result<Migrated> {
        Err(not_here("migrating"))
    }

    async fn schema_version(&self) -> Result<Option<u32>> {
        Err(not_here("looking at the schema"))
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        Ok(self.client.doctor().await?.findings)
    }

    async fn lock_acquire(&self, ask: &LockAcquire) -> Result<LockOutcome> {
        Ok(self.client.acquire(&Acquire::from(ask)).await?)
    }

    async fn lock_acquire_waiting(
        &self,
        ask: &LockAcquire,
        wait: Duration,
        order: WaitOrder,
    ) -> Result<Option<LockOutcome>> {
        let acquire = |wait| {
            let mut body = Acquire::from(ask);
            body.wait = Some(wait);
            body.order = Some(order);
            async move { Ok(self.client.acquire(&body).await?) }
        };
        let is_busy = |outcome: &LockOutcome| matches!(outcome, LockOutcome::Busy(_));
        wait::until(wait, acquire, is_busy).await.map(Some)
    }

    async fn lock_acquire_all(&self, ask: &LockAcquireAll) -> Result<LockAllOutcome> {
        Ok(self.client.acquire_all(&ask.into()).await?)
    }

    async fn lock_renew(&self, ask: &LockRenew) -> Result<RenewOutcome> {
        if ask.token.0 < 0 {
            return Ok(RenewOutcome::Lost);
        }
        let ttl = Some(ask.ttl.into());
        let id = lease_id(&ask.resource, ask.token);
        Ok(self.client.renew(&id, &Renew { ttl }).await?)
    }

    async fn lock_release(&self, ask: &LockRelease) -> Result<ReleaseOutcome> {
        if ask.token.0 < 0 {
            return Ok(ReleaseOutcome::Lost);
        }
        let id = lease_id(&ask.resource, ask.token);
        Ok(self.client.release_as(&id, ask.hold, ask.request).await?)
    }

    async fn lock_break(&self, ask: &LockBreak) -> Result<BreakOutcome> {
        Ok(self.client.break_lock_with(ask).await?)
    }

    /// Does nothing: the server registers the waiters that it waits for, and a caller that polls is not registered.
    async fn lock_wait(&self, _: &LockWait) -> Result<WaitOutcome> {
        Ok(WaitOutcome::Registered)
    }

    async fn lock_leave(&self, _: &LockLeave) -> Result<()> {
        Ok(())
    }

    async fn lock_status(&self, resource: &str) -> Result<LockStatus> {
        Ok(self.client.lock_status(resource).await?)
    }

    async fn lock_list(&self, ask: &LockList) -> Result<Vec<LockHolder>> {
        let page = Page {
            limit: Some(ask.limit),
            after: (!ask.after.is_empty()).then(|| ask.after.clone()),
        };
        Ok(self.client.locks(&ask.prefix, &page).await?.locks)
    }

    async fn history(&self, ask: &History) -> Result<Vec<HistoryEntry>> {
        let page = Page {
            limit: Some(ask.limit),
            after: Some(ask.before.unwrap_or(LATEST)),
        };
        let (part, resource) = (ask.part, ask.resource.as_deref());
        let history = self.client.history(part, resource, &ask.prefix, &page);
        Ok(history.await?.history)
    }

    async fn sweep(&self, ask: &Sweep) -> Result<Swept> {
        let ask = SweepRequest {
            purge_after: Some(ask.purge_after.into()),
            keep_history: Some(ask.keep_history.into()),
            keep_completed: Some(ask.keep_completed.into()),
            keep_failed: ask.keep_failed.map(Into::into),
            keep_archive: Some(ask.keep_archive.into()),
            keep_seen: Some(ask.keep_seen.into()),
        };
        Ok(self.client.sweep(&ask).await?)
    }

    fn wakers(&self) -> &Arc<Wakers> {
        &self.wakers
    }

    async fn close(&self) {}
}

fn lease_id(resource: &str, token: Token) -> LeaseId {
    LeaseId {
        resource: resource.to_owned(),
        token,
    }
}
