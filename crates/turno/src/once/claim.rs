//! A run in hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer;
use crate::Turno;
use crate::error::Result;
use crate::store::{OnceClaim, OnceComplete, OnceGrant, OnceSettled, Released, Token};
use crate::tx::Transaction;

/// The right, and the duty, to do the work of a key.
///
/// Dropped without an end, it leaves the key *unknown*: something may have been done.
#[derive(Debug)]
#[must_use = "dropping a claim leaves its key unknown"]
pub struct Claim {
    turno: Turno,
    grant: OnceGrant,
    lease: Duration,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether whoever asked for it has it: before that, nothing can have been done.
    in_hand: AtomicBool,
    /// Whether there is nothing left to do when it is dropped.
    over: AtomicBool,
    /// Whether it was completed in a transaction of the caller's, which may have been committed.
    in_tx: AtomicBool,
    /// Cancelled when the store has said that somebody else's run counts.
    stale: CancellationToken,
}

impl Claim {
    pub(super) fn new(turno: Turno, grant: OnceGrant, lease: Duration) -> Self {
        Claim {
            turno,
            grant,
            lease,
            state: Arc::default(),
        }
    }

    /// From here on, the work may begin.
    pub(super) fn hand_over(&self) {
        self.state.in_hand.store(true, Ordering::Relaxed);
    }

    /// Its name, by which it can be completed and released from anywhere.
    pub fn id(&self) -> &OnceClaim {
        &self.grant.claim
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.grant.claim.key
    }

    /// The fencing token: larger than that of every earlier run. Hand it to whatever you write to.
    pub fn token(&self) -> Token {
        self.grant.claim.token
    }

    /// How many runs began without an end, this one included: above 1, an earlier one has vanished.
    pub fn attempt(&self) -> u32 {
        self.grant.attempt
    }

    /// The right as the store granted it.
    pub fn grant(&self) -> &OnceGrant {
        &self.grant
    }

    /// Ends the run with its answer.
    ///
    /// # Errors
    /// If the answer is no JSON or too large, or the store does not answer: then it is not known whether it is stored,
    /// and it may be said again.
    pub async fn complete<T: Serialize + ?Sized>(&self, answer: &T) -> Result<OnceSettled> {
        let text = answer::text_of(answer)?;
        self.settle(Some(&text), None).await
    }

    /// Ends the run, and keeps its answer for another time than begin said.
    ///
    /// # Errors
    /// As [`Claim::complete`].
    pub async fn complete_for<T: Serialize + ?Sized>(
        &self,
        answer: &T,
        ttl: Duration,
    ) -> Result<OnceSettled> {
        let text = answer::text_of(answer)?;
        self.settle(Some(&text), Some(ttl)).await
    }

    /// Ends the run without its answer: whoever comes later is told that it is done, and no more.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn complete_without(&self) -> Result<OnceSettled> {
        self.settle(None, None).await
    }

    async fn settle(&self, answer: Option<&str>, ttl: Option<Duration>) -> Result<OnceSettled> {
        let settled = self.turno.once_complete(self.id(), answer, ttl).await?;
        self.ended(settled);
        Ok(settled)
    }

    /// Ends the run in the caller's transaction, together with its effects: both are there, or neither.
    ///
    /// Until that commits, the key is in flight for others, as long as the lease lasts. Events can be emitted in the same
    /// transaction ([`Outbox::emit`](crate::outbox::Outbox::emit)).
    ///
    /// # Errors
    /// [`Error::is_lost`](crate::Error::is_lost) if somebody else's run counts now: roll back.
    pub async fn complete_in<T: Serialize + ?Sized>(
        &self,
        tx: &mut impl Transaction,
        answer: &T,
    ) -> Result<()> {
        let text = answer::text_of(answer)?;
        let ask = OnceComplete {
            claim: self.id().clone(),
            answer: answer::stored(&self.turno, self.key(), Some(&text))?,
            ttl: None,
        };
        let completed = tx.once_complete(&ask).await;
        match &completed {
            Ok(()) => self.state.in_tx.store(true, Ordering::Relaxed),
            Err(error) if error.is_lost() => self.state.stale.cancel(),
            Err(_) => {}
        }
        completed
    }

    /// Gives the work back: nothing was done, and whoever asks next does it.
    ///
    /// # Errors
    /// If the store does not answer; the key is unknown then, when the lease is over.
    pub async fn release(self) -> Result<OnceSettled> {
        self.give_back(Released::Undone).await
    }

    /// Gives the work back: something may have been done.
    ///
    /// # Errors
    /// If the store does not answer; the key is unknown when the lease is over.
    pub async fn release_unknown(self) -> Result<OnceSettled> {
        self.give_back(Released::Unknown).await
    }

    pub(super) async fn give_back(&self, released: Released) -> Result<OnceSettled> {
        // Whatever the store answers: there is nothing left to do for a drop.
        self.state.over.store(true, Ordering::Relaxed);
        self.turno.once_release(self.id(), released).await
    }

    /// Lets the claim live on without this handle, and answers its name: somebody else completes it.
    pub fn detach(self) -> OnceClaim {
        self.state.over.store(true, Ordering::Relaxed);
        self.id().clone()
    }

    /// Says in the background, for as long as the answer is held, that the work goes on.
    pub fn auto_extend(&self) -> AutoExtend {
        let stop = CancellationToken::new();
        let keep = keep(
            self.turno.clone(),
            self.id().clone(),
            self.lease,
            self.state.clone(),
        );
        let stopped = stop.clone();
        self.turno.spawn_background(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = keep => {}
            }
        });
        AutoExtend {
            _stop: stop.drop_guard(),
        }
    }

    /// Resolves when the store has said that somebody else's run counts now; [`Claim::auto_extend`] notices.
    pub async fn stale(&self) {
        self.state.stale.cancelled().await;
    }

    /// Whether it was completed in a transaction of the caller's.
    #[cfg(feature = "http")]
    pub(super) fn is_completed_in_tx(&self) -> bool {
        self.state.in_tx.load(Ordering::Relaxed)
    }

    fn ended(&self, settled: OnceSettled) {
        self.state.over.store(true, Ordering::Relaxed);
        if settled == OnceSettled::Stale {
            tracing::warn!(claim = %self.id(), "an answer came too late: somebody else's run counts");
            self.state.stale.cancel();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.state.over.load(Ordering::Relaxed) {
            return;
        }
        let released = match self.state.in_hand.load(Ordering::Relaxed) {
            true => Released::Unknown,
            false => Released::Undone,
        };
        let (turno, claim) = (self.turno.clone(), self.id().clone());
        self.turno.spawn_background(async move {
            if let Err(error) = turno.once_release(&claim, released).await {
                tracing::debug!(%claim, %error, "not given back; the claim ends by itself");
            }
        });
    }
}

/// Keeps a claim alive; dropping it ends that.
#[derive(Debug)]
#[must_use = "dropping it ends the extending"]
pub struct AutoExtend {
    _stop: DropGuard,
}

async fn keep(turno: Turno, claim: OnceClaim, lease: Duration, state: Arc<State>) {
    loop {
        tokio::time::sleep(lease / 3).await;
        match turno.once_extend(&claim, lease).await {
            Ok(OnceSettled::Done) => {}
            Ok(OnceSettled::Stale) => {
                // Settled a moment ago by its own hand, or taken over.
                if !state.over.load(Ordering::Relaxed) {
                    state.stale.cancel();
                }
                return;
            }
            Err(error) => {
                tracing::warn!(%claim, %error, "a claim could not be extended; it is tried again");
            }
        }
    }
}
