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
    pub async fn ending(&self) {
        self.state.ending.cancelled().await;
    }

    /// Returns [`Lease::ending`] as a cancellation token.
    pub fn ending_token(&self) -> CancellationToken {
        self.state.ending.clone()
    }

    /// Resolves when the lease counts as ended: the store has reported it, or the expiry is nearer than a margin. Work that still
    /// runs then may run at the same time as that of the next holder.
    pub async fn gone(&self) {
        renewal::gone(&self.state).await;
    }

    /// Renews the lease in the background, three times per TTL, until the returned [`AutoRenew`] is dropped.
    pub fn auto_renew(&self) -> AutoRenew {
        AutoRenew::spawn(self.turno.clone(), self.id(), self.ttl, self.state.clone())
    }

    /// Renews the lease: it expires one TTL from now.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn renew(&self) -> Result<RenewOutcome> {
        self.renew_for(self.ttl).await
    }

    /// Renews the lease with another TTL. It never becomes shorter.
    ///
    /// # Errors
    /// Returns an error if the TTL is invalid, or the store is unavailable.
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
    pub async fn guard<T: Transaction>(&self, tx: &mut T) -> Result<()> {
        super::guard(tx, &self.id()).await
    }

    /// Releases one hold. [`ReleaseOutcome::Lost`] means that the lease had ended, and another holder may have worked meanwhile.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable. The lease then expires.
    pub async fn release(mut self) -> Result<ReleaseOutcome> {
        let hold = self.hold.take().expect("a lease is released once");
        release(&self.turno, self.id(), hold).await
    }

    /// Keeps the lease without this handle, until it is released by its id or expires.
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
