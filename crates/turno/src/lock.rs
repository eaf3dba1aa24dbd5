//! Locks: leases with fencing tokens.
//!
//! [`Turno::lock`] begins a [`Lock`]; [`Lock::acquire`] tries to take it and answers with an
//! [`Acquire`]; [`Lock::run`] holds it around a piece of work. Several at once are a [`LockSet`].
//!
//! Which way to take one:
//!
//! | you want | you call |
//! |---|---|
//! | to do something under the lock | [`Lock::run`] |
//! | to hold it across calls | [`Lock::acquire`], then [`Lease::release`] |
//! | to be sure that a write is not stale | [`Lease::guard`], last in your transaction |
//! | to wait for your turn | [`Lock::wait`], [`Lock::fifo`] |
//! | several at once, or several holders | [`Turno::locks`], [`Lock::shared`], [`Lock::permits`] |

mod keep;
mod lease;
mod run;
mod set;
mod wait;

use std::time::Duration;

use tokio::time::Instant;
pub use turno_api::ids::LeaseId;
pub use turno_api::lock::Language;
use uuid::Uuid;

pub use self::keep::Keeper;
pub use self::lease::Lease;
pub use self::run::RunError;
pub use self::set::{AcquireAll, LeaseSet, LockSet};
use crate::Turno;
use crate::check;
use crate::error::Result;
use crate::own_task;
use crate::settings::Retry;
pub use crate::store::{
    Attribution, BreakOutcome, Busy, Grant, HistoryEntry, HistoryEvent, Holder, LockHistory,
    LockHolder, LockList, LockMode, LockStatus, ReleaseOutcome, RenewOutcome, Sweep, Swept, Token,
    WaitOrder,
};
use crate::store::{LockAcquire, LockOutcome};

/// A lock to be taken. Nothing happens before [`Lock::acquire`] or [`Lock::run`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before acquire or run"]
pub struct Lock {
    turno: Turno,
    ask: LockAcquire,
    request: Option<Uuid>,
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
            wait: None,
            order: WaitOrder::Any,
            retry,
        }
    }

    /// How long the lease lives unless it is renewed.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ask.ttl = ttl;
        self
    }

    /// Who holds it, as a machine sees it. The same owner enters again; a fresh UUID otherwise.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.ask.owner = owner.into();
        self
    }

    /// Who holds it, as a person sees it.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.ask.attribution.user = Some(user.into());
        self
    }

    /// The application that holds it.
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.ask.attribution.service = Some(service.into());
        self
    }

    /// What is being done.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.ask.attribution.description = Some(description.into());
        self
    }

    /// The machine and the process that hold it, if these are not this one's: a server takes locks for its clients.
    pub fn process(mut self, host: Option<String>, pid: Option<i32>) -> Self {
        self.ask.attribution.host = host;
        self.ask.attribution.pid = pid;
        self
    }

    /// Waits this long for its turn: until the holder's release, its expiry, or a look now and then.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits in line: nobody who comes later is served first. Only together with [`Lock::wait`].
    pub fn fifo(mut self) -> Self {
        self.order = WaitOrder::Fifo;
        self
    }

    /// Tries a busy lock this often, with this pause between; instead of [`Lock::wait`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Shares it with other shared holders.
    pub fn shared(mut self) -> Self {
        self.ask.mode = LockMode::Shared;
        self
    }

    /// Takes one of so many permits. All who use a resource should name the same number.
    pub fn permits(mut self, permits: u32) -> Self {
        self.ask.mode = LockMode::Permits(permits);
        self
    }

    /// Nobody may take it again before this has passed, even if it is released sooner.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.ask.min_hold = Some(min_hold);
        self
    }

    /// However often it is renewed, it ends after this.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.ask.max_hold = Some(max_hold);
        self
    }

    /// The identity of this acquire: sent again with the same, because its answer was lost, it is answered with the same
    /// lease and the same hold. Each acquire has a fresh one otherwise.
    pub fn request(mut self, request: Uuid) -> Self {
        self.request = Some(request);
        self
    }

    /// Takes the lock, or tells who has it.
    ///
    /// Cancel-safe: dropped half-way, a grant that was under way is given back.
    ///
    /// # Errors
    /// If an argument is out of rule or the store does not answer. A busy lock is no error.
    pub async fn acquire(mut self) -> Result<Acquire> {
        self.check()?;
        self.ask.request = self.own_request();
        let answer = wait::acquire(&self, self.patience()).await?;
        Ok(answer.map_or_else(Acquire::Busy, Acquire::Acquired))
    }

    fn own_request(&self) -> Uuid {
        self.request.unwrap_or_else(Uuid::now_v7)
    }

    fn patience(&self) -> wait::Patience {
        wait::Patience {
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
    type Taken = Lease;

    fn asker(&self) -> (&Turno, &LockAcquire) {
        (&self.turno, &self.ask)
    }

    async fn attempt(&self) -> wait::Tried<Lease> {
        let (turno, ask) = (self.turno.clone(), self.ask.clone());
        own_task::ask(async move {
            // Taken before the question is sent: the lease can only be longer than this clock believes.
            let asked = Instant::now();
            Ok(match turno.store().lock_acquire(&ask).await? {
                LockOutcome::Acquired(grant) => Ok(Lease::new(turno, grant, &ask, asked)),
                LockOutcome::Busy(busy) => Err(busy),
            })
        })
        .await
    }

    async fn attempt_waiting(
        &self,
        wait: Duration,
        order: WaitOrder,
    ) -> Result<Option<std::result::Result<Lease, Busy>>> {
        let (turno, ask) = (&self.turno, &self.ask);
        let unheard = Unheard::new(turno, ask);
        let asked = Instant::now();
        let waited = turno.store().lock_acquire_waiting(ask, wait, order).await;
        unheard.heard();
        match waited? {
            None => Ok(None),
            Some(LockOutcome::Busy(busy)) => Ok(Some(Err(busy))),
            // Counted from before the question, a lease that was waited for is over sooner than it is. Asked again, the same
            // request is told how long it still has.
            Some(LockOutcome::Acquired(_)) if asked.elapsed() > keep::margin(ask.ttl) => {
                self.attempt().await.map(Some)
            }
            Some(LockOutcome::Acquired(grant)) => {
                Ok(Some(Ok(Lease::new(turno.clone(), grant, ask, asked))))
            }
        }
    }
}

/// Whoever gives up while a store waits may have been granted the lock in that moment, and not have heard of it. Asked once
/// more, the same request tells; and the lease that nobody has in hand is given back.
struct Unheard(Option<(Turno, LockAcquire)>);

impl Unheard {
    fn new(turno: &Turno, ask: &LockAcquire) -> Self {
        Unheard(Some((turno.clone(), ask.clone())))
    }

    fn heard(mut self) {
        self.0 = None;
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        let Some((turno, ask)) = self.0.take() else {
            return;
        };
        turno.clone().behind(async move {
            let asked = Instant::now();
            match turno.store().lock_acquire(&ask).await {
                Ok(LockOutcome::Acquired(grant)) => drop(Lease::new(turno, grant, &ask, asked)),
                Ok(LockOutcome::Busy(_)) => {}
                Err(error) => {
                    tracing::debug!(%error, "not asked whether it was granted; a lease ends with its time to live");
                }
            }
        });
    }
}

/// Answer of [`Lock::acquire`].
#[derive(Debug)]
#[must_use = "the lock may be busy"]
pub enum Acquire {
    /// It is yours.
    Acquired(Lease),
    /// Somebody else has it.
    Busy(Busy),
}

impl Acquire {
    /// The lease, if it is yours.
    pub fn acquired(self) -> Option<Lease> {
        match self {
            Acquire::Acquired(lease) => Some(lease),
            Acquire::Busy(_) => None,
        }
    }

    /// Whether somebody else has it.
    pub fn is_busy(&self) -> bool {
        matches!(self, Acquire::Busy(_))
    }
}
