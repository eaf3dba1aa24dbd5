//! Locks: leases with fencing tokens.
//!
//! [`Turno::lock`] returns a [`Lock`]; [`Lock::acquire`] acquires it and returns an [`Acquire`]; [`Lock::run`] holds it while work
//! runs. A [`LockSet`] is several locks that are acquired together.
//!
//! | to | call |
//! |---|---|
//! | run work under the lock | [`Lock::run`] |
//! | hold it across calls | [`Lock::acquire`], then [`Lease::release`] |
//! | reject stale writes | [`Lease::guard`], last in your transaction |
//! | wait for a busy lock | [`Lock::wait`], [`Lock::fifo`] |
//! | acquire several locks, or allow several holders | [`Turno::locks`], [`Lock::shared`], [`Lock::permits`] |

mod lease;
mod renewal;
mod run;
mod set;
mod wait;

use std::time::Duration;

use tokio::time::Instant;
pub use turno_api::ids::LeaseId;
pub use turno_api::lock::{AcquireOptions, Language};
use uuid::Uuid;

pub use self::lease::Lease;
pub use self::renewal::AutoRenew;
pub use self::run::RunError;
pub use self::set::{AcquireAll, LeaseSet, LockSet};
use crate::Turno;
use crate::check;
use crate::error::Result;
use crate::settings::Retry;
pub use crate::store::{
    Attribution, BreakOutcome, Busy, Grant, HistoryEntry, HistoryEvent, Holder, LockHolder,
    LockList, LockMode, LockStatus, ReleaseOutcome, RenewOutcome, Sweep, Swept, Token, WaitOrder,
};
use crate::tx::Transaction;

/// Checks in the caller's [transaction](crate::tx) that a lease has not ended; as [`Lease::guard`], by its id.
///
/// # Errors
/// Returns an error ([`Error::is_lost`](crate::Error::is_lost)) if the token is stale: the caller must roll back.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("app.db");
/// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
/// let id = turno.lock("PRESTAMO/123").acquire().await?.acquired().ok_or("busy")?.detach();
/// let mut connection = rusqlite::Connection::open(&file)?;
/// let mut tx = connection.transaction()?;
/// turno::lock::guard(&mut tx, &id).await?; // last, before the commit
/// tx.commit()?;
/// # Ok(()) }
/// ```
pub async fn guard(tx: &mut impl Transaction, id: &LeaseId) -> Result<()> {
    tx.lock_guard(&id.resource, id.token).await
}

use crate::store::{LockAcquire, LockBreak, LockOutcome, LockRelease, LockRenew};
use crate::uncancelled::{self, ReleaseOnCancel};

/// The handle of a lock, and the options of its next call. Nothing happens before [`Lock::acquire`], [`Lock::run`] or another
/// `async` method.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// use std::time::Duration;
///
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let report = || turno.lock("loan/1").shared().ttl(Duration::from_secs(60)).user("ana").description("monthly report");
/// let _readers = [report().acquire().await?, report().acquire().await?];
/// assert_eq!(turno.lock("loan/1").status().await?.holders.len(), 2);
/// assert!(turno.lock("loan/1").acquire().await?.is_busy()); // exclusive
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before acquire or run"]
pub struct Lock {
    turno: Turno,
    ask: LockAcquire,
    request: Option<Uuid>,
    hold: Option<Uuid>,
    wait: Option<Duration>,
    order: WaitOrder,
    retry: Retry,
}

impl Lock {
    pub(crate) fn new(turno: Turno, resource: String) -> Self {
        let ask = LockAcquire {
            resource,
            owner: Uuid::new_v4().to_string(),
            ttl: turno.settings().ttl,
            mode: LockMode::Exclusive,
            min_hold: None,
            max_hold: None,
            attribution: turno.attribution(),
            request: Uuid::now_v7(),
        };
        let retry = turno.settings().retry;
        Lock {
            turno,
            ask,
            request: None,
            hold: None,
            wait: None,
            order: WaitOrder::Any,
            retry,
        }
    }

    /// Sets the TTL: the lease expires after this time, unless it is renewed. From 1 millisecond to
    /// [`Settings::max_ttl`](crate::Settings::max_ttl). Default: that of the settings, 30 seconds.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ask.ttl = ttl;
        self
    }

    /// Sets the owner, at most 255 bytes. A second acquire by the same owner succeeds, and adds a hold. Default: a new UUID.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lock = turno.lock("loan/1").owner("worker-1");
    /// let _first = lock.clone().acquire().await?;
    /// let second = lock.acquire().await?.acquired().expect("it is the same owner");
    /// assert_eq!(second.grant().holds, 2);
    /// # Ok(()) }
    /// ```
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.ask.owner = owner.into();
        self
    }

    /// Sets the user, for status and history, at most 255 bytes. Default: that of the settings.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.ask.attribution.user = Some(user.into());
        self
    }

    /// Sets the application, for status and history, at most 255 bytes. Default: that of the settings.
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.ask.attribution.service = Some(service.into());
        self
    }

    /// Sets a description of the work, for status and history, at most 1000 bytes. Default: none.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.ask.attribution.description = Some(description.into());
        self
    }

    /// Sets the host and the process that hold the lock, for a server that acquires locks for its clients. Default: this one.
    pub fn process(mut self, host: Option<String>, pid: Option<i32>) -> Self {
        self.ask.attribution.host = host;
        self.ask.attribution.pid = pid;
        self
    }

    /// Waits up to this long for a busy lock, at most 24 hours. Default: no wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// let waiter = turno.lock("loan/1").wait(Duration::from_secs(10)).fifo().acquire();
    /// let (acquired, released) = tokio::join!(waiter, lease.release());
    /// assert!(!acquired?.is_busy());
    /// # released?;
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits first in, first out. Only together with [`Lock::wait`]. Default: no order.
    pub fn fifo(mut self) -> Self {
        self.order = WaitOrder::Fifo;
        self
    }

    /// Sets the retry policy for a busy lock, as an alternative to [`Lock::wait`]. Default: that of the settings, one attempt.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Acquires the lock together with other shared holders. Default: exclusive.
    pub fn shared(mut self) -> Self {
        self.ask.mode = LockMode::Shared;
        self
    }

    /// Acquires one of this many permits, 1 to 10,000. All callers of a resource should use the same number. Default: exclusive.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let permit = || turno.lock("bank-api").permits(2).acquire();
    /// let _permits = [permit().await?, permit().await?];
    /// assert!(permit().await?.is_busy());
    /// # Ok(()) }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.ask.mode = LockMode::Permits(permits);
        self
    }

    /// Keeps the lock busy for at least this time after the acquire, even if it is released sooner. At most the TTL. Default: none.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.ask.min_hold = Some(min_hold);
        self
    }

    /// Ends the lease this long after the acquire, however often it is renewed. At least 1 millisecond. Default: no limit.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.ask.max_hold = Some(max_hold);
        self
    }

    /// Sets the request id of the acquire, release or break that follows. A call that is repeated with the same id, because its
    /// response was lost, changes nothing more and returns the first result. Default: a new UUIDv7 per call.
    pub fn request(mut self, request: Uuid) -> Self {
        self.request = Some(request);
        self
    }

    /// Applies the options that are given; the others keep their values.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::lock::AcquireOptions;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let options = AcquireOptions { owner: Some("worker-1".into()), ..AcquireOptions::default() };
    /// let lease = turno.lock("PRESTAMO/123").options(options).acquire().await?.acquired().expect("it is free");
    /// assert_eq!(lease.grant().owner, "worker-1");
    /// # Ok(()) }
    /// ```
    pub fn options(mut self, options: AcquireOptions) -> Self {
        fn set<T>(value: &mut T, option: Option<impl Into<T>>) {
            if let Some(option) = option {
                *value = option.into();
            }
        }
        let ask = &mut self.ask;
        set(&mut ask.owner, options.owner);
        set(&mut ask.ttl, options.ttl);
        set(&mut ask.mode, options.mode);
        set(&mut ask.min_hold, options.min_hold.map(Duration::from));
        set(&mut ask.max_hold, options.max_hold.map(Duration::from));
        set(&mut ask.attribution.user, options.user);
        set(&mut ask.attribution.service, options.service);
        set(&mut ask.attribution.description, options.description);
        set(&mut ask.attribution.host, options.host);
        set(&mut ask.attribution.pid, options.pid);
        set(&mut self.wait, options.wait.map(Duration::from));
        set(&mut self.order, options.order);
        set(&mut self.request, options.request);
        self
    }

    /// Acquires the lock, or returns its holder.
    ///
    /// Cancel-safe: if the future is dropped, a grant in progress is released.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the store is unavailable. A busy lock is not an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::lock::Acquire;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let _held = turno.lock("loan/1").user("ana").acquire().await?;
    /// match turno.lock("loan/1").acquire().await? {
    ///     Acquire::Acquired(lease) => panic!("acquired with token {}", lease.token()),
    ///     Acquire::Busy(busy) => assert_eq!(busy.holder.and_then(|holder| holder.user).as_deref(), Some("ana")),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire(mut self) -> Result<Acquire> {
        self.check()?;
        self.ask.request = self.own_request();
        let outcome = wait::acquire(&self, self.wait_options()).await?;
        Ok(outcome.map_or_else(Acquire::Busy, Acquire::Acquired))
    }

    /// Sets which hold [`Lock::release`] ends, by the request id of the acquire that took it. Default: the newest hold.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::lock::ReleaseOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lock = turno.lock("loan/1").owner("worker-1");
    /// let first = uuid::Uuid::now_v7();
    /// let lease = lock.clone().request(first).acquire().await?.acquired().ok_or("busy")?.detach();
    /// lock.clone().acquire().await?.acquired().ok_or("busy")?.detach(); // a second hold of the same lease
    /// assert_eq!(lock.hold(first).release(lease.token).await?, ReleaseOutcome::Released { holds: 1 });
    /// # Ok(()) }
    /// ```
    pub fn hold(mut self, request: Uuid) -> Self {
        self.hold = Some(request);
        self
    }

    /// Returns who holds the resource.
    ///
    /// # Errors
    /// Returns an error if the resource's name is invalid or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let _lease = turno.lock("loan/1").user("ana").acquire().await?;
    /// let status = turno.lock("loan/1").status().await?;
    /// assert_eq!(status.holders[0].attribution.user.as_deref(), Some("ana"));
    /// # Ok(()) }
    /// ```
    pub async fn status(self) -> Result<LockStatus> {
        check::name("resource", &self.ask.resource)?;
        self.turno.store().lock_status(&self.ask.resource).await
    }

    /// Renews a lease that is known by its token only: it expires one [TTL](Lock::ttl) from now, or as before, if that is
    /// later. A [`Lease`] renews itself with [`Lease::renew`].
    ///
    /// # Errors
    /// Returns an error if the resource's name or the TTL is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use turno::lock::RenewOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?.detach();
    /// let renewed = turno.lock(&lease.resource).ttl(Duration::from_secs(60)).renew(lease.token).await?;
    /// assert!(matches!(renewed, RenewOutcome::Renewed { .. }));
    /// # Ok(()) }
    /// ```
    pub async fn renew(self, token: Token) -> Result<RenewOutcome> {
        check::name("resource", &self.ask.resource)?;
        check::ttl(self.ask.ttl, self.turno.settings().max_ttl)?;
        self.turno
            .store()
            .lock_renew(&LockRenew {
                resource: self.ask.resource.clone(),
                token,
                ttl: self.ask.ttl,
            })
            .await
    }

    /// Ends one hold of a lease that is known by its token only. A [`Lease`] ends with [`Lease::release`].
    ///
    /// # Errors
    /// Returns an error if the resource's name is invalid or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::lock::ReleaseOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?.detach();
    /// let released = turno.lock(&lease.resource).release(lease.token).await?;
    /// assert_eq!(released, ReleaseOutcome::Released { holds: 0 });
    /// # Ok(()) }
    /// ```
    pub async fn release(self, token: Token) -> Result<ReleaseOutcome> {
        check::name("resource", &self.ask.resource)?;
        let ask = LockRelease {
            resource: self.ask.resource.clone(),
            token,
            hold: self.hold,
            request: self.own_request(),
        };
        lease::release_by_token(&self.turno, &ask).await
    }

    /// Ends the lease with this token although its holder has not released it. For an operator, not for a program: the
    /// [user](Lock::user) and the reason (at most 1000 bytes) go into the [history](Turno::history).
    ///
    /// # Errors
    /// Returns an error if the resource's name, the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::lock::BreakOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// let broken = turno.lock("loan/1").user("ana").force_break(lease.token(), "it hangs").await?;
    /// assert_eq!(broken, BreakOutcome::Broken);
    /// # Ok(()) }
    /// ```
    pub async fn force_break(
        self,
        token: Token,
        reason: impl Into<String>,
    ) -> Result<BreakOutcome> {
        let ask = LockBreak {
            resource: self.ask.resource.clone(),
            token,
            reason: reason.into(),
            user: self.ask.attribution.user.clone(),
            request: self.own_request(),
        };
        check::name("resource", &ask.resource)?;
        check::text("reason", &ask.reason, check::TEXT_BYTES)?;
        check::optional_name("user", ask.user.as_deref())?;
        let outcome = self.turno.store().lock_break(&ask).await?;
        self.turno.store().wakers().wake(&ask.resource);
        Ok(outcome)
    }

    fn own_request(&self) -> Uuid {
        self.request.unwrap_or_else(Uuid::now_v7)
    }

    fn wait_options(&self) -> wait::WaitOptions {
        wait::WaitOptions {
            wait: self.wait,
            order: self.order,
            retry: self.retry,
        }
    }

    fn check(&self) -> Result<()> {
        let who = &self.ask.attribution;
        check::name("resource", &self.ask.resource)?;
        check::name("owner", &self.ask.owner)?;
        check::optional_name("user", who.user.as_deref())?;
        check::optional_name("service", who.service.as_deref())?;
        check::optional_name("host", who.host.as_deref())?;
        if let Some(description) = &who.description {
            check::text("description", description, check::TEXT_BYTES)?;
        }
        check::ttl(self.ask.ttl, self.turno.settings().max_ttl)?;
        check::holds(self.ask.ttl, self.ask.min_hold, self.ask.max_hold)?;
        if let Some(wait) = self.wait {
            check::wait(wait)?;
        }
        match self.ask.mode {
            LockMode::Permits(permits) => check::permits(permits),
            LockMode::Exclusive | LockMode::Shared => Ok(()),
        }
    }
}

impl wait::Attempt for Lock {
    type Lease = Lease;

    fn caller(&self) -> (&Turno, &LockAcquire) {
        (&self.turno, &self.ask)
    }

    async fn attempt(&self) -> Result<wait::Outcome<Lease>> {
        let (turno, ask) = (self.turno.clone(), self.ask.clone());
        uncancelled::run_to_completion(try_acquire(turno, ask)).await
    }

    async fn attempt_waiting(
        &self,
        wait: Duration,
        order: WaitOrder,
    ) -> Result<Option<wait::Outcome<Lease>>> {
        let (turno, ask) = (&self.turno, &self.ask);
        let undelivered = ReleaseOnCancel::new(turno.clone(), ask.clone(), release_grant);
        let asked = Instant::now();
        let waited = turno.store().lock_acquire_waiting(ask, wait, order).await;
        undelivered.delivered();
        match waited? {
            None => Ok(None),
            Some(LockOutcome::Busy(busy)) => Ok(Some(Err(busy))),
            // The grant came some time after the request, so a lease that is counted from the request would end too early. A
            // repetition of the same request returns how long the lease still lasts.
            Some(LockOutcome::Acquired(_)) if asked.elapsed() > renewal::margin(ask.ttl) => {
                self.attempt().await.map(Some)
            }
            Some(LockOutcome::Acquired(grant)) => {
                Ok(Some(Ok(Lease::new(turno.clone(), grant, ask, asked))))
            }
        }
    }
}

async fn try_acquire(turno: Turno, ask: LockAcquire) -> Result<wait::Outcome<Lease>> {
    // Taken before the request is sent, so that the lease never ends later by this clock than by the store's.
    let asked = Instant::now();
    Ok(match turno.store().lock_acquire(&ask).await? {
        LockOutcome::Acquired(grant) => Ok(Lease::new(turno, grant, &ask, asked)),
        LockOutcome::Busy(busy) => Err(busy),
    })
}

/// Releases what a cancelled request may have been granted: repeats it, and drops the lease that it returns.
async fn release_grant(turno: Turno, ask: LockAcquire) -> Result<()> {
    try_acquire(turno, ask).await.map(drop)
}

/// Outcome of [`Lock::acquire`]. It is exhaustive: a lock is acquired or busy.
#[derive(Debug)]
#[must_use = "the lock may be busy"]
pub enum Acquire {
    /// The lock was acquired.
    Acquired(Lease),
    /// Another holder has it.
    Busy(Busy),
}

impl Acquire {
    /// Returns the lease, if the lock was acquired.
    pub fn acquired(self) -> Option<Lease> {
        match self {
            Acquire::Acquired(lease) => Some(lease),
            Acquire::Busy(_) => None,
        }
    }

    /// Returns whether another holder has the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self, Acquire::Busy(_))
    }
}
