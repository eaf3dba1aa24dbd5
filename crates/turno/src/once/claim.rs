//! A claimed run.

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

/// Right and obligation to do the work of a key.
///
/// If it is dropped without being ended, the key becomes *unknown*, because some of the work may have been done.
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
    /// Whether the caller has received it. Before that, no work can have been done.
    in_hand: AtomicBool,
    /// Whether there is nothing left to do on drop.
    over: AtomicBool,
    /// Whether it was completed in a transaction of the caller, which may have been committed.
    in_tx: AtomicBool,
    /// Cancelled when the store has reported that another run has taken over.
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

    /// Marks the claim as received: from here on, the work may begin.
    pub(super) fn hand_over(&self) {
        self.state.in_hand.store(true, Ordering::Relaxed);
    }

    /// Returns the claim's id, by which any process can complete or release it.
    pub fn id(&self) -> &OnceClaim {
        &self.grant.claim
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.grant.claim.key
    }

    /// Returns the fencing token: larger than that of every earlier run. Pass it to the systems that you write to.
    pub fn token(&self) -> Token {
        self.grant.claim.token
    }

    /// Returns the number of runs that began without an end, including this one. Above 1, an earlier run is unknown.
    pub fn attempt(&self) -> u32 {
        self.grant.attempt
    }

    /// Returns the grant of the store.
    pub fn grant(&self) -> &OnceGrant {
        &self.grant
    }

    /// Completes the run with its answer. [`OnceSettled::Stale`] means that another run has taken over, and the answer is not
    /// stored.
    ///
    /// # Errors
    /// Returns an error if the answer is not JSON or too large, or the store is unavailable. In the last case it is not known
    /// whether the answer is stored, and the call can be repeated.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::OnceSettled;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?;
    /// assert_eq!(claim.complete(&serde_json::json!({"receipt": 1})).await?, OnceSettled::Done);
    /// # Ok(()) }
    /// ```
    pub async fn complete<T: Serialize + ?Sized>(&self, answer: &T) -> Result<OnceSettled> {
        let text = answer::text_of(answer)?;
        self.settle(Some(&text), None).await
    }

    /// Completes the run, and keeps its answer for this time, at most ten years, instead of the TTL of the begin.
    ///
    /// # Errors
    /// As [`Claim::complete`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?;
    /// claim.complete_for("not enough funds", Duration::ZERO).await?; // the answer is not kept
    /// assert!(turno.once("pago/77").begin().await?.fresh().is_some());
    /// # Ok(()) }
    /// ```
    pub async fn complete_for<T: Serialize + ?Sized>(
        &self,
        answer: &T,
        ttl: Duration,
    ) -> Result<OnceSettled> {
        let text = answer::text_of(answer)?;
        self.settle(Some(&text), Some(ttl)).await
    }

    /// Completes the run without an answer: later callers learn that the work is done, but get no answer.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::Begin;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.complete_without().await?;
    /// let Begin::Replay(answer) = turno.once("pago/77").begin().await? else { panic!("the work is done") };
    /// assert_eq!(answer.text(), None);
    /// # Ok(()) }
    /// ```
    pub async fn complete_without(&self) -> Result<OnceSettled> {
        self.settle(None, None).await
    }

    async fn settle(&self, answer: Option<&str>, ttl: Option<Duration>) -> Result<OnceSettled> {
        let settled = self.turno.once_complete(self.id(), answer, ttl).await?;
        self.ended(settled);
        Ok(settled)
    }

    /// Completes the run in the caller's transaction, together with its effects: either both are committed or neither.
    ///
    /// Until the commit, the key is in flight for others while the lease lasts. Events can be emitted in the same
    /// transaction ([`Outbox::emit_in`](crate::outbox::Outbox::emit_in)).
    ///
    /// # Errors
    /// Returns an error with [`Error::is_lost`](crate::Error::is_lost) if another run has taken over, and another error if the
    /// answer is invalid or the database fails: roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = connection.transaction()?;
    /// tx.execute("create table payment (amount text)", [])?; // the effect
    /// claim.complete_in(&mut tx, "receipt 1").await?; // last, before the commit
    /// tx.commit()?;
    /// let view = turno.once("pago/77").status().await?.ok_or("it is stored")?;
    /// assert_eq!(view.answer.as_deref(), Some("\"receipt 1\""));
    /// # Ok(()) }
    /// ```
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

    /// Releases the claim: nothing was done, and the next caller does the work.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable. The key then becomes unknown when the lease expires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.release().await?;
    /// assert!(turno.once("pago/77").begin().await?.fresh().is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<OnceSettled> {
        self.give_back(Released::Undone).await
    }

    /// Releases the claim as unknown: some of the work may have been done. What the next caller gets is set by
    /// [`Once::unknown`](super::Once::unknown).
    ///
    /// # Errors
    /// Returns an error if the store is unavailable. The key then becomes unknown when the lease expires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::Begin;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.release_unknown().await?;
    /// assert!(matches!(turno.once("pago/77").begin().await?, Begin::Unknown(_)));
    /// # Ok(()) }
    /// ```
    pub async fn release_unknown(self) -> Result<OnceSettled> {
        self.give_back(Released::Unknown).await
    }

    pub(super) async fn give_back(&self, released: Released) -> Result<OnceSettled> {
        // Whatever the store returns, there is nothing left to do on drop.
        self.state.over.store(true, Ordering::Relaxed);
        self.turno.once_release(self.id(), released).await
    }

    /// Keeps the claim without this handle, and returns its id, so that another process can complete it
    /// ([`Turno::once_complete`], which has an example). Without a completion, the claim expires after its lease.
    pub fn detach(self) -> OnceClaim {
        self.state.over.store(true, Ordering::Relaxed);
        self.id().clone()
    }

    /// Extends the claim in the background, three times per lease, until the returned [`AutoExtend`] is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?;
    /// let extension = claim.auto_extend();
    /// let work = async { "receipt 1" };
    /// let receipt = tokio::select! {
    ///     receipt = work => Some(receipt),
    ///     () = claim.stale() => None, // another run has taken over: stop
    /// };
    /// drop(extension);
    /// claim.complete(&receipt).await?;
    /// assert_eq!(receipt, Some("receipt 1"));
    /// # Ok(()) }
    /// ```
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

    /// Resolves when the store has reported that another run has taken over; [`Claim::auto_extend`] detects that.
    pub async fn stale(&self) {
        self.state.stale.cancelled().await;
    }

    /// Returns whether it was completed in a transaction of the caller.
    #[cfg(feature = "http")]
    pub(super) fn is_completed_in_tx(&self) -> bool {
        self.state.in_tx.load(Ordering::Relaxed)
    }

    fn ended(&self, settled: OnceSettled) {
        self.state.over.store(true, Ordering::Relaxed);
        if settled == OnceSettled::Stale {
            tracing::warn!(claim = %self.id(), "an answer came too late: another run counts");
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

/// Extends a claim until it is dropped.
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
                // Stale because this process has just ended it, or because another run has taken over.
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
