//! Runs work under a lock that is renewed, and released in every case.

use std::convert::Infallible;

use super::{Acquire, Lease, LeaseId, Lock, ReleaseOutcome};
use crate::Turno;
use crate::error::Error;
use crate::store::Busy;

/// Why the work did not run, or did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E = Infallible> {
    /// Another holder has the lock. The work did not begin.
    #[error("{0}")]
    Busy(Busy),
    /// The lease was lost, or could not be renewed; the work was stopped before it could expire.
    #[error(
        "the lease {0} was lost, and the work was stopped: look at the lock's history, and begin again"
    )]
    Lost(LeaseId),
    /// The store is unavailable, or an argument is invalid. The work did not begin.
    #[error(transparent)]
    Store(#[from] Error),
    /// The work failed.
    #[error("the work failed")]
    Work(#[source] E),
}

impl<E> RunError<E> {
    /// Returns the holder, if the lock is busy.
    pub fn busy(&self) -> Option<&Busy> {
        match self {
            RunError::Busy(busy) => Some(busy),
            _ => None,
        }
    }
}

impl Lock {
    /// Runs work under the lock.
    ///
    /// The lease is renewed in the background. If it is lost, or cannot be renewed in time,
    /// [`Lease::ending`] resolves; shortly after, still before the lease can expire, the work is dropped. The lock is released on
    /// success, error, panic and cancellation.
    ///
    /// A process that was suspended for longer than its lease cannot stop in time: protect writes that must not be stale with
    /// [`Lease::guard`].
    ///
    /// # Errors
    /// Returns a [`RunError`] that distinguishes a busy lock, a lost lease, the store and the work.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::convert::Infallible;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let pay = async |_: &turno::lock::Lease| Ok::<_, Infallible>("paid");
    /// assert_eq!(turno.lock("loan/1").run(pay).await?, "paid");
    ///
    /// let _held = turno.lock("loan/1").user("ana").acquire().await?;
    /// let error = turno.lock("loan/1").run(pay).await.unwrap_err();
    /// assert!(error.busy().is_some()); // the work did not begin
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E>(
        self,
        work: impl AsyncFnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        let lease = match self.acquire().await? {
            Acquire::Acquired(lease) => lease,
            Acquire::Busy(busy) => return Err(RunError::Busy(busy)),
        };
        run_under(lease, work).await
    }
}

async fn run_under<T, E>(
    lease: Lease,
    work: impl AsyncFnOnce(&Lease) -> Result<T, E>,
) -> Result<T, RunError<E>> {
    let renewal = lease.auto_renew();
    let done = tokio::select! {
        // Polls the work first: work that has finished counts, even if the lease is lost.
        biased;
        done = work(&lease) => Some(done),
        () = lease.gone() => None,
    };
    drop(renewal);
    let id = lease.id();
    // After a panic or a cancellation, dropping the lease releases it in the background. So is a lost lease, because the store may
    // be unavailable, and the caller should not wait for it.
    let Some(done) = done else {
        return Err(RunError::Lost(id));
    };
    match lease.release().await {
        Ok(ReleaseOutcome::Released { .. }) => {}
        Ok(ReleaseOutcome::Lost) => {
            tracing::warn!(lease = %id, "the lease was lost before its work ended")
        }
        Err(error) => {
            tracing::warn!(lease = %id, %error, "the lease was not released; it ends with its time to live");
        }
    }
    done.map_err(RunError::Work)
}

impl Turno {
    /// Runs work under a lock with the default options, as [`Lock::run`] does.
    ///
    /// # Errors
    /// Returns a [`RunError`], as [`Lock::run`] does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let first = turno.with_lock("loan/1", async |lease| Ok::<_, turno::Error>(lease.token())).await?;
    /// let second = turno.with_lock("loan/1", async |lease| Ok::<_, turno::Error>(lease.token())).await?;
    /// assert!(second > first);
    /// # Ok(()) }
    /// ```
    pub async fn with_lock<T, E>(
        &self,
        resource: impl Into<String>,
        work: impl AsyncFnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        self.lock(resource).run(work).await
    }
}
