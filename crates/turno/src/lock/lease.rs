//! A lease in hand.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::keep::{self, Keeper};
use super::{LeaseId, ReleaseOutcome, RenewOutcome};
use crate::Turno;
use crate::check;
use crate::error::Result;
use crate::store::{Grant, LockAcquire, LockRelease, LockRenew, Token};
use crate::tx::CallerTx;

/// A lock that is yours, until it expires, is released, or is broken.
///
/// Dropped without [`Lease::release`], it is given back in the background as well as that can be done;
/// [`Lease::detach`] lets it live on.
#[derive(Debug)]
#[must_use = "dropping a lease gives it back"]
pub struct Lease {
    turno: Turno,
    grant: Grant,
    ttl: Duration,
    state: Arc<LeaseState>,
    /// This handle's own hold, by the request that took it; `None` once it is given back or let go.
    hold: Option<Uuid>,
}

/// What the renewing task and the holder both look at.
#[derive(Debug)]
pub(super) struct LeaseState {
    until: Mutex<Until>,
    /// How long before its expiry the lease is taken for gone.
    pub(super) margin: Duration,
    /// Cancelled when the work should stop: the lease is lost, or about to be.
    pub(super) ending: CancellationToken,
    /// Cancelled when the store has said that the lease is lost.
    pub(super) lost: CancellationToken,
}

#[derive(Debug, Clone, Copy)]
struct Until {
    /// On this process's own steady clock, counted from before the question was sent.
    here: Instant,
    /// On the store's clock, for showing.
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
            margin: keep::margin(ask.ttl.min(grant.remaining)),
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

    /// Its name, by which it can be renewed and released from anywhere.
    pub fn id(&self) -> LeaseId {
        LeaseId {
            resource: self.grant.resource.clone(),
            token: self.grant.token,
        }
    }

    /// What is locked.
    pub fn resource(&self) -> &str {
        &self.grant.resource
    }

    /// Who holds it.
    pub fn owner(&self) -> &str {
        &self.grant.owner
    }

    /// The fencing token: larger than that of every earlier holder. Hand it to whatever you write to.
    pub fn token(&self) -> Token {
        self.grant.token
    }

    /// The lease as the store granted it.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// When it ends, on the store's clock, as far as is known here.
    pub fn expires_at(&self) -> Timestamp {
        self.state.until().there
    }

    /// How long it surely still lives, on this process's own clock.
    pub fn remaining(&self) -> Duration {
        self.state
            .expiry()
            .saturating_duration_since(Instant::now())
    }

    /// Resolves when the work should stop: the lease is lost, or could not be renewed and is about to
    /// expire. It needs a lease that is being kept ([`Lease::keep`], or inside
    /// [`Lock::run`](super::Lock::run)).
    pub async fn ending(&self) {
        self.state.ending.cancelled().await;
    }

    /// The same as a token that can be handed on.
    pub fn ending_token(&self) -> CancellationToken {
        self.state.ending.clone()
    }

    /// Resolves when the lease must be taken for gone: the store has said so, or its time is up less
    /// a margin. Work that still runs then may meet the next holder.
    pub async fn gone(&self) {
        keep::gone(&self.state).await;
    }

    /// Renews it in the background until the [`Keeper`] is dropped.
    pub fn keep(&self) -> Keeper {
        Keeper::spawn(self.turno.clone(), self.id(), self.ttl, self.state.clone())
    }

    /// Lengthens it by its time to live, from now.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn renew(&self) -> Result<RenewOutcome> {
        self.renew_for(self.ttl).await
    }

    /// Lengthens it to another time from now. It never becomes shorter.
    ///
    /// # Errors
    /// If the time is out of rule or the store does not answer.
    pub async fn renew_for(&self, ttl: Duration) -> Result<RenewOutcome> {
        check::ttl(ttl, self.turno.settings().max_ttl)?;
        renew(&self.turno, &self.id(), ttl, &self.state).await
    }

    /// Fencing, enforced: in your own transaction, as its last statement before the commit.
    ///
    /// It fails if the token is stale, and otherwise keeps everybody from taking the lock over until
    /// that transaction has ended, even past the expiry. See [`crate::tx`] for the transactions.
    ///
    /// # Errors
    /// [`Error::is_lost`](crate::Error::is_lost) if the token is stale: roll back.
    pub async fn guard<T: CallerTx>(&self, tx: &mut T) -> Result<()> {
        tx.lock_guard(&self.grant.resource, self.grant.token).await
    }

    /// Gives back one hold. `Lost` means that somebody else may have been in: the work was not alone.
    ///
    /// # Errors
    /// If the store does not answer; the lease then ends with its time to live.
    pub async fn release(mut self) -> Result<ReleaseOutcome> {
        let hold = self.hold.take().expect("a lease is released once");
        release(&self.turno, self.id(), hold).await
    }

    /// Lets it live on without this handle; somebody releases it by its id, or it expires.
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
    turno.lock_release_with(&ask).await
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        let (turno, id) = (self.turno.clone(), self.id());
        self.turno.behind(async move {
            if let Err(error) = release(&turno, id, hold).await {
                tracing::warn!(%error, "a dropped lease was not released; it ends with its time to live");
            }
        });
    }
}
