//! Locks on several resources, acquired all or none.

use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::{Lease, LeaseId, Lock, LockMode, ReleaseOutcome, RunError, WaitOrder, wait};
use crate::Turno;
use crate::check;
use crate::error::{Error, Result};
use crate::store::{Busy, LockAcquire, LockAcquireAll, LockAllOutcome};
use crate::uncancelled;

/// Locks on several resources, which are acquired together. They are acquired in sorted order, so that two callers cannot
/// deadlock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let both = turno.locks(["PRESTAMO/2", "PRESTAMO/1"]).acquire().await?.acquired().expect("both are free");
/// assert!(turno.lock("PRESTAMO/1").acquire().await?.is_busy());
/// both.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before acquire"]
pub struct LockSet {
    turno: Turno,
    resources: Vec<String>,
    each: Lock,
}

impl LockSet {
    pub(crate) fn new(turno: Turno, mut resources: Vec<String>) -> Self {
        resources.sort_unstable();
        resources.dedup();
        let each = Lock::new(turno.clone(), String::new());
        LockSet {
            turno,
            resources,
            each,
        }
    }

    /// Sets options of all locks: TTL, owner, user, wait, retry and others. Defaults: those of [`Lock`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let _both = turno.locks(["loan/1", "loan/2"]).each(|lock| lock.user("ana")).acquire().await?;
    /// let status = turno.lock("loan/2").status().await?;
    /// assert_eq!(status.holders[0].attribution.user.as_deref(), Some("ana"));
    /// # Ok(()) }
    /// ```
    pub fn each(mut self, with: impl FnOnce(Lock) -> Lock) -> Self {
        self.each = with(self.each);
        self
    }

    /// Sets the TTL of the leases; as [`Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.each(|lock| lock.ttl(ttl))
    }

    /// Waits up to this long until all of them are free; as [`Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        self.each(|lock| lock.wait(wait))
    }

    /// Sets the request id of the acquire; as [`Lock::request`].
    pub fn request(self, request: Uuid) -> Self {
        self.each(|lock| lock.request(request))
    }

    /// Acquires all of them, or none. One call acquires 1 to 100 resources, exclusively.
    ///
    /// Cancel-safe: if the future is dropped, grants in progress are released.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid, such as a mode other than exclusive or [`Lock::fifo`], or the store is
    /// unavailable. A busy lock is not an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let _held = turno.lock("loan/2").acquire().await?;
    /// assert!(turno.locks(["loan/1", "loan/2"]).acquire().await?.is_busy());
    /// assert!(!turno.lock("loan/1").acquire().await?.is_busy()); // it was not acquired
    /// # Ok(()) }
    /// ```
    pub async fn acquire(mut self) -> Result<AcquireAll> {
        if !(1..=check::MAX_TOGETHER).contains(&self.resources.len()) {
            return Err(Error::invalid(
                "resources",
                format!(
                    "resources has {} names, and must have 1 to {}: lock a common parent, such as PRESTAMO instead of each PRESTAMO/n",
                    self.resources.len(),
                    check::MAX_TOGETHER
                ),
            ));
        }
        for resource in &self.resources {
            self.each.ask.resource.clone_from(resource);
            self.each.check()?;
        }
        if self.each.ask.mode != LockMode::Exclusive {
            return Err(Error::invalid(
                "mode",
                "several resources are taken exclusively: leave out shared and permits",
            ));
        }
        if self.each.order == WaitOrder::Fifo {
            return Err(Error::invalid(
                "fifo",
                "first in, first out on several resources could deadlock: leave out fifo",
            ));
        }
        self.each.ask.request = self.each.own_request();
        let options = self.each.wait_options();
        let ask = LockAcquireAll {
            resources: self.resources,
            each: self.each.ask,
        };
        let multi = Multi {
            turno: self.turno,
            ask,
        };
        let outcome = wait::acquire(&multi, options).await?;
        Ok(outcome.map_or_else(AcquireAll::Busy, AcquireAll::Acquired))
    }

    /// Runs work under all of them; as [`Lock::run`].
    ///
    /// # Errors
    /// Returns a [`RunError`], as [`Lock::run`] does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let first = turno
    ///     .locks(["account/2", "account/1"])
    ///     .run(async |leases| Ok::<_, turno::Error>(leases.leases()[0].resource().to_owned()))
    ///     .await?;
    /// assert_eq!(first, "account/1"); // in order of their names
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E>(
        self,
        work: impl AsyncFnOnce(&LeaseSet) -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        let leases = match self.acquire().await? {
            AcquireAll::Acquired(leases) => leases,
            AcquireAll::Busy(busy) => return Err(RunError::Busy(busy)),
        };
        let keepers: Vec<_> = leases.leases.iter().map(Lease::auto_renew).collect();
        let done = tokio::select! {
            biased;
            done = work(&leases) => Ok(done),
            id = leases.gone() => Err(id),
        };
        drop(keepers);
        let done = match done {
            Ok(done) => done,
            Err(id) => return Err(RunError::Lost(id)),
        };
        if let Err(error) = leases.release().await {
            tracing::warn!(%error, "the leases were not released; they end with their time to live");
        }
        done.map_err(RunError::Work)
    }
}

struct Multi {
    turno: Turno,
    ask: LockAcquireAll,
}

impl wait::Attempt for Multi {
    type Lease = LeaseSet;

    fn caller(&self) -> (&Turno, &LockAcquire) {
        (&self.turno, &self.ask.each)
    }

    async fn attempt(&self) -> Result<wait::Outcome<LeaseSet>> {
        let (turno, ask) = (self.turno.clone(), self.ask.clone());
        uncancelled::run_to_completion(async move {
            let asked = Instant::now();
            Ok(match turno.store().lock_acquire_all(&ask).await? {
                LockAllOutcome::Busy(busy) => Err(busy),
                LockAllOutcome::Acquired(grants) => {
                    let lease = |grant| Lease::new(turno.clone(), grant, &ask.each, asked);
                    Ok(LeaseSet {
                        leases: grants.into_iter().map(lease).collect(),
                    })
                }
            })
        })
        .await
    }
}

/// Outcome of [`LockSet::acquire`].
#[derive(Debug)]
#[must_use = "the locks may be busy"]
pub enum AcquireAll {
    /// All were acquired.
    Acquired(LeaseSet),
    /// Another holder has one of them; none was acquired.
    Busy(Busy),
}

impl AcquireAll {
    /// Returns the leases, if all were acquired.
    pub fn acquired(self) -> Option<LeaseSet> {
        match self {
            AcquireAll::Acquired(leases) => Some(leases),
            AcquireAll::Busy(_) => None,
        }
    }

    /// Returns whether another holder has one of them.
    pub fn is_busy(&self) -> bool {
        matches!(self, AcquireAll::Busy(_))
    }
}

/// Leases that were acquired together.
#[derive(Debug)]
#[must_use = "dropping leases gives them back"]
pub struct LeaseSet {
    leases: Vec<Lease>,
}

impl LeaseSet {
    /// Returns the leases, in order of their resources.
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// Resolves with the id of the first lease that counts as ended; see [`Lease::gone`].
    pub async fn gone(&self) -> LeaseId {
        let mut ends: Vec<_> = self
            .leases
            .iter()
            .map(|lease| Box::pin(lease.gone()))
            .collect();
        std::future::poll_fn(|context| {
            let ended = ends
                .iter_mut()
                .position(|end| end.as_mut().poll(context).is_ready());
            ended.map_or(Poll::Pending, |index| Poll::Ready(self.leases[index].id()))
        })
        .await
    }

    /// Keeps the leases without this handle, and returns their ids; as [`Lease::detach`].
    pub fn detach(self) -> Vec<LeaseId> {
        self.leases.into_iter().map(Lease::detach).collect()
    }

    /// Releases all of them, in reverse order. Returns [`ReleaseOutcome::Lost`] if one of them was lost.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable. The other leases are released in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::lock::ReleaseOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let both = turno.locks(["loan/1", "loan/2"]).acquire().await?.acquired().expect("both are free");
    /// assert_eq!(both.release().await?, ReleaseOutcome::Released { holds: 0 });
    /// assert!(!turno.lock("loan/2").acquire().await?.is_busy());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome> {
        let mut answer = ReleaseOutcome::Released { holds: 0 };
        for lease in self.leases.into_iter().rev() {
            if lease.release().await? == ReleaseOutcome::Lost {
                answer = ReleaseOutcome::Lost;
            }
        }
        Ok(answer)
    }
}
