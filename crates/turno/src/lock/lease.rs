//! The handle of a lease.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::renewal::{self, AutoRenew};
use super::{LeaseId, ReleaseOutcome, RenewOutcome};
use crate::Turno;
use crate::check;
use crate::error::Result;
use crate::store::{Grant, LockAcquire, LockRelease, LockRenew, Token};
use crate::tx::Transaction;

/// The right to a lock, until it expires, is released or is broken.
///
/// On drop without [`Lease::release`], the lease is released in the background; [`Lease::detach`] keeps it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use turno::lock::ReleaseOutcome;
///
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
/// println!("valid for {:?}, until {}", lease.remaining(), lease.expires_at());
/// assert_eq!(lease.release().await?, ReleaseOutcome::Released { holds: 0 });
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "dropping a lease gives it back"]
pub struct Lease {
    turno: Turno,
    grant: Grant,
    ttl: Duration,
    state: Arc<LeaseState>,
    /// The hold of this handle, by the request id of its acquire; `None` once it is released or detached.
    hold: Option<Uuid>,
}

/// State that the renewal task and the holder share.
#[derive(Debug)]
pub(super) struct LeaseState {
    until: Mutex<Until>,
    /// How long before its expiry the lease counts as ended.
    pub(super) margin: Duration,
    /// Cancelled when the work should stop, because the lease is lost or about to expire.
    pub(super) ending: CancellationToken,
    /// Cancelled when the store has reported that the lease is lost.
    pub(super) lost: CancellationToken,
}

#[derive(Debug, Clone, Copy)]
struct Until {
    /// On this process's monotonic clock, counted from before the request was sent.
    here: Instant,
    /// On the store's clock, for display.
    there: Timestamp,
}

impl LeaseState {
    fn until(&self) -> Until {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn expiry(&self) -> Instant {
        self.until().here
    }

    pub(super) fn renewed(&self, asked: Instant, remaining: Duration, expires_at: Timestamp) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Until {
            here: asked + remaining,
            there: expires_at,
        };
    }
}

impl Lease {
    pub(super) fn new(turno: Turno, grant: Grant, ask: &LockAcquire, asked: Instant) -> Self {
        let until = Until {
            here: asked + grant.remaining,
            there: grant.expires_at,
        };
        let state = LeaseState {
            until: Mutex::new(until),
            margin: renewal::margin(ask.ttl.min(grant.remaining)),
            ending: CancellationToken::new(),
            lost: CancellationToken::new(),
        };
        Lease {
            turno,
            grant,
            ttl: ask.ttl,
            state: Arc::new(state),
            hold: Some(ask.request),
        }
    }

    /// Returns the id, by which any process can renew and release the lease.
    pub fn id(&self) -> LeaseId {
        LeaseId {
            resource: self.grant.resource.clone(),
            token: self.grant.token,
        }
    }

    /// Returns the resource.
    pub fn resource(&self) -> &str {
        &self.grant.resource
    }

    /// Returns the owner.
    pub fn owner(&self) -> &str {
        &self.grant.owner
    }

    /// Returns the fencing token, which is larger than that of every earlier holder. Send it with each write to another system.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let first = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// let token = first.token();
    /// first.release().await?;
    /// let second = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// assert!(second.token() > token);
    /// # Ok(()) }
    /// ```
    pub fn token(&self) -> Token {
        self.grant.token
    }

    /// Returns the grant of the store.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns when the lease expires, on the store's clock, as of the last renewal.
    pub fn expires_at(&self) -> Timestamp {
        self.state.until().there
    }

    /// Returns for how long the lease is certainly valid, on this process's monotonic clock.
    pub fn remaining(&self) -> Duration {
        self.state
            .expiry()
            .saturating_duration_since(Instant::now())
    }

    /// Resolves when the work should stop, because the lease is lost, or could not be renewed and is about to expire. Requires
    /// automatic renewal ([`Lease::auto_renew`], or [`Lock::run`](super::Lock::run)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use turno::lock::ReleaseOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").ttl(Duration::from_secs(1)).acquire().await?.acquired().ok_or("busy")?;
    /// let _renewal = lease.auto_renew();
    /// turno.lock("loan/1").force_break(lease.token(), "it hangs").await?;
    /// lease.ending().await; // the next renewal, after a third of the TTL, finds that the lease is lost
    /// assert_eq!(lease.release().await?, ReleaseOutcome::Lost);
    /// # Ok(()) }
    /// ```
    pub async fn ending(&self) {
        self.state.ending.cancelled().await;
    }

    /// Returns [`Lease::ending`] as a cancellation token.
    pub fn ending_token(&self) -> CancellationToken {
        self.state.ending.clone()
    }

    /// Resolves when the lease counts as ended: the store has reported it, or the expiry is nearer than a margin (a tenth of the
    /// TTL, at most 5 seconds). Work that still runs then may run at the same time as that of the next holder.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").ttl(Duration::from_millis(100)).acquire().await?.acquired().ok_or("busy")?;
    /// lease.gone().await; // it is not renewed
    /// assert!(lease.remaining() <= Duration::from_millis(10));
    /// # Ok(()) }
    /// ```
    pub async fn gone(&self) {
        renewal::gone(&self.state).await;
    }

    /// Renews the lease in the background, three times per TTL, until the returned [`AutoRenew`] is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// let renewal = lease.auto_renew();
    /// let work = async { "paid" };
    /// let result = tokio::select! {
    ///     result = work => Some(result),
    ///     () = lease.ending() => None, // the lease is lost: stop
    /// };
    /// assert_eq!(result, Some("paid"));
    /// drop(renewal);
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn auto_renew(&self) -> AutoRenew {
        AutoRenew::spawn(self.turno.clone(), self.id(), self.ttl, self.state.clone())
    }

    /// Renews the lease: it expires one TTL from now. [`RenewOutcome::Lost`] means that the lease has ended.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable. It is then unknown whether the lease was renewed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::lock::RenewOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// assert!(matches!(lease.renew().await?, RenewOutcome::Renewed { .. }));
    ///
    /// turno.lock("loan/1").force_break(lease.token(), "it hangs").await?;
    /// assert_eq!(lease.renew().await?, RenewOutcome::Lost);
    /// # Ok(()) }
    /// ```
    pub async fn renew(&self) -> Result<RenewOutcome> {
        self.renew_for(self.ttl).await
    }

    /// Renews the lease with another TTL: from 1 millisecond to [`Settings::max_ttl`](crate::Settings::max_ttl). The remaining time
    /// never becomes shorter.
    ///
    /// # Errors
    /// Returns an error if the TTL is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// lease.renew_for(Duration::from_secs(3600)).await?;
    /// lease.renew_for(Duration::from_secs(1)).await?; // changes nothing
    /// assert!(lease.remaining() > Duration::from_secs(3000));
    /// # Ok(()) }
    /// ```
    pub async fn renew_for(&self, ttl: Duration) -> Result<RenewOutcome> {
        check::ttl(ttl, self.turno.settings().max_ttl)?;
        renew(&self.turno, &self.id(), ttl, &self.state).await
    }

    /// Checks in the caller's own [transaction](crate::tx) that the lease has not ended. Call it last, before the commit.
    ///
    /// If the check succeeds, no other caller can take over the lock until the transaction has ended, even if the lease
    /// expires meanwhile.
    ///
    /// # Errors
    /// Returns an error ([`Error::is_lost`](crate::Error::is_lost)) if the token is stale: the caller must roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// tx.execute("create table payment (amount text)", [])?;
    /// lease.guard(&mut tx).await?;
    /// tx.commit()?;
    ///
    /// turno.lock("loan/1").force_break(lease.token(), "it hangs").await?;
    /// let mut tx = connection.transaction()?;
    /// assert!(lease.guard(&mut tx).await.unwrap_err().is_lost());
    /// tx.rollback()?;
    /// # Ok(()) }
    /// ```
    pub async fn guard<T: Transaction>(&self, tx: &mut T) -> Result<()> {
        super::guard(tx, &self.id()).await
    }

    /// Releases one hold. [`ReleaseOutcome::Lost`] means that the lease had ended, and another holder may have worked meanwhile.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable. The lease then expires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::lock::ReleaseOutcome;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let lease = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?;
    /// assert_eq!(lease.release().await?, ReleaseOutcome::Released { holds: 0 });
    /// assert!(!turno.lock("loan/1").acquire().await?.is_busy());
    /// # Ok(()) }
    /// ```
    pub async fn release(mut self) -> Result<ReleaseOutcome> {
        let hold = self.hold.take().expect("a lease is released once");
        release(&self.turno, self.id(), hold).await
    }

    /// Keeps the lease without this handle, until it is released by its id ([`Lock::release`](super::Lock::release)) or expires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::lock::LeaseId;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let text = turno.lock("loan/1").acquire().await?.acquired().ok_or("busy")?.detach().to_string();
    /// assert!(turno.lock("loan/1").acquire().await?.is_busy());
    /// // In another process:
    /// let id: LeaseId = text.parse()?;
    /// turno.lock(&id.resource).release(id.token).await?;
    /// assert!(!turno.lock("loan/1").acquire().await?.is_busy());
    /// # Ok(()) }
    /// ```
    pub fn detach(mut self) -> LeaseId {
        self.hold = None;
        self.id()
    }
}

pub(super) async fn renew(
    turno: &Turno,
    id: &LeaseId,
    ttl: Duration,
    state: &LeaseState,
) -> Result<RenewOutcome> {
    let asked = Instant::now();
    let ask = LockRenew {
        resource: id.resource.clone(),
        token: id.token,
        ttl,
    };
    let outcome = turno.store().lock_renew(&ask).await?;
    match outcome {
        RenewOutcome::Renewed {
            expires_at,
            remaining,
        } => state.renewed(asked, remaining, expires_at),
        RenewOutcome::Lost => {
            state.lost.cancel();
            state.ending.cancel();
        }
    }
    Ok(outcome)
}

async fn release(turno: &Turno, id: LeaseId, hold: Uuid) -> Result<ReleaseOutcome> {
    let ask = LockRelease {
        resource: id.resource,
        token: id.token,
        hold: Some(hold),
        request: Uuid::now_v7(),
    };
    release_by_token(turno, &ask).await
}

/// Releases one hold, and wakes the waiters of this process.
pub(super) async fn release_by_token(turno: &Turno, ask: &LockRelease) -> Result<ReleaseOutcome> {
    let outcome = turno.store().lock_release(ask).await?;
    turno.store().wakers().wake(&ask.resource);
    Ok(outcome)
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        let (turno, id) = (self.turno.clone(), self.id());
        self.turno.spawn_background(async move {
            if let Err(error) = release(&turno, id, hold).await {
                tracing::warn!(%error, "a dropped lease was not released; it ends with its time to live");
            }
        });
    }
}
