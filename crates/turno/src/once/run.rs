//! Runner: does work once, and returns its answer to all callers.

use std::convert::Infallible;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{AfterUnknown, Begin, Claim, Once};
use crate::error::Error;
use crate::store::{OnceClaim, OnceRun, OnceSettled, Released};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E = Infallible> {
    /// Another caller is doing the work.
    #[error("the work is in flight{}: ask again in a moment", by(.0))]
    InFlight(OnceRun),
    /// The key belongs to a request with different content.
    #[error("the key belongs to a request with other content: use a new key for a new request")]
    Mismatch,
    /// An earlier run ended without an answer.
    #[error("an earlier run{} vanished half-way, and what it did is not known: look, then forget or resolve the key", by(.0))]
    Unknown(OnceRun),
    /// The caller has reached its quota of live keys.
    #[error("there are too many live keys: wait until some are over")]
    OverQuota,
    /// The work is done, and its answer was not stored.
    #[error("the work is done, and its answer was not stored: look for its effects")]
    NotStored,
    /// The work was done here, but its lease had expired and another run has taken over.
    #[error("the answer of {0} came too late: another run counts. Begin again to get its answer")]
    Stale(OnceClaim),
    /// The store is unavailable, or an argument is invalid. If the work was done, its answer may not be stored.
    #[error(transparent)]
    Store(#[from] Error),
    /// Error of the work itself.
    #[error("the work failed")]
    Work(#[source] E),
}

fn by(run: &OnceRun) -> String {
    match &run.worker {
        Some(worker) => format!(" (by {worker}, since {})", run.began_at),
        None => format!(" (since {})", run.began_at),
    }
}

/// Result of a probe for an unknown run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe<T> {
    /// It was done; this is its answer.
    Done(T),
    /// It was not done.
    NotDone,
    /// The probe cannot determine that.
    Unsure,
}

impl Once {
    /// Does the work, unless it is done already. Returns its answer, or the stored one.
    ///
    /// The claim is extended while the work is running. If the work fails, the key is free again, or unknown
    /// ([`Once::on_error`]). If it panics or is dropped before its end, the key is unknown.
    ///
    /// # Errors
    /// Returns an [`OnceError`] that says why there is no answer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::convert::Infallible;
    /// use turno::once::OnceError;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let failed = turno.once("pago/77").run(async || Err::<u32, _>("no connection to the bank")).await;
    /// assert!(matches!(failed, Err(OnceError::Work("no connection to the bank"))));
    /// // After a failure the next caller does the work; later callers get its answer.
    /// assert_eq!(turno.once("pago/77").run(async || Ok::<_, Infallible>(1)).await?, 1);
    /// assert_eq!(turno.once("pago/77").run(async || Ok::<_, Infallible>(2)).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E>(
        self,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        self.run_with(async |_: &Claim| work().await).await
    }

    /// Like [`Once::run`], for work that needs its claim: for the fencing token, or to complete the run in its own transaction
    /// ([`Claim::complete_in`]) with the answer that it then returns.
    ///
    /// # Errors
    /// As [`Once::run`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # use turno::outbox::Event;
    /// # use turno::tx::SqliteTransaction;
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let pay = async |claim: &turno::once::Claim| {
    ///     let mut tx = SqliteTransaction::begin(&mut connection)?;
    ///     turno.outbox().emit_in(&mut tx, Event::new("PaymentEvent", &77)).await?; // the effect
    ///     claim.complete_in(&mut tx, "receipt 1").await?;
    ///     tx.commit()?;
    ///     Ok::<_, turno::Error>("receipt 1".to_owned())
    /// };
    /// assert_eq!(turno.once("pago/77").run_with(pay).await?, "receipt 1");
    /// assert_eq!(turno.outbox().stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub async fn run_with<T, E>(
        self,
        work: impl AsyncFnOnce(&Claim) -> Result<T, E>,
    ) -> Result<T, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        match answered(self.begin().await?)? {
            Started::Answer(answer) => Ok(answer),
            Started::Fresh(claim) => do_it(claim, work, self.on_error).await,
        }
    }

    /// Like [`Once::run_with`], but if an earlier run is unknown, first calls a probe that finds out what happened: for
    /// example by a request to the payment provider. Only one caller at a time calls it.
    ///
    /// # Errors
    /// As [`Once::run`]; [`OnceError::Unknown`] if the probe cannot determine it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::convert::Infallible;
    /// use turno::once::Probe;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// // An earlier run ended without an answer.
    /// turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.release_unknown().await?;
    /// let pay = async |_: &turno::once::Claim| Ok::<_, Infallible>("receipt 2".to_owned());
    /// let probe = async |_: &turno::once::Claim| Ok(Probe::Done("receipt 1".to_owned())); // the bank has the payment
    /// assert_eq!(turno.once("pago/77").run_with_probe(pay, probe).await?, "receipt 1");
    /// # Ok(()) }
    /// ```
    pub async fn run_with_probe<T, E>(
        self,
        work: impl AsyncFnOnce(&Claim) -> Result<T, E>,
        probe: impl AsyncFnOnce(&Claim) -> Result<Probe<T>, E>,
    ) -> Result<T, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let begun = self.clone().unknown(AfterUnknown::Rerun).begin().await?;
        let claim = match answered(begun)? {
            Started::Answer(answer) => return Ok(answer),
            Started::Fresh(claim) => claim,
        };
        if claim.attempt() == 1 {
            return do_it(claim, work, self.on_error).await;
        }
        let renewal = claim.auto_extend();
        let found = probe(&claim).await;
        drop(renewal);
        match found {
            Ok(Probe::Done(answer)) => complete(claim, answer).await,
            Ok(Probe::NotDone) => do_it(claim, work, self.on_error).await,
            Ok(Probe::Unsure) => {
                let run = vanished(&claim);
                claim.release_unknown().await?;
                Err(OnceError::Unknown(run))
            }
            Err(error) => {
                give_back(claim, Released::Unknown).await;
                Err(OnceError::Work(error))
            }
        }
    }
}

/// Returns the little that is known of an unknown run after it was taken over: that it had expired by then.
fn vanished(claim: &Claim) -> OnceRun {
    let grant = claim.grant();
    OnceRun {
        worker: None,
        attempt: grant.attempt - 1,
        began_at: grant.expires_at - grant.remaining,
        expires_at: grant.expires_at,
        remaining: std::time::Duration::ZERO,
    }
}

enum Started<T> {
    Answer(T),
    Fresh(Claim),
}

fn answered<T: DeserializeOwned, E>(begun: Begin) -> Result<Started<T>, OnceError<E>> {
    match begun {
        Begin::Fresh(claim) => Ok(Started::Fresh(claim)),
        Begin::Replay(answer) => match answer.get()? {
            Some(answer) => Ok(Started::Answer(answer)),
            None => Err(OnceError::NotStored),
        },
        Begin::InFlight(run) => Err(OnceError::InFlight(run)),
        Begin::Mismatch => Err(OnceError::Mismatch),
        Begin::Unknown(run) => Err(OnceError::Unknown(run)),
        Begin::OverQuota => Err(OnceError::OverQuota),
    }
}

async fn do_it<T: Serialize, E>(
    claim: Claim,
    work: impl AsyncFnOnce(&Claim) -> Result<T, E>,
    on_error: Released,
) -> Result<T, OnceError<E>> {
    let renewal = claim.auto_extend();
    // A panic or a cancellation drops the claim, and makes the key unknown.
    let done = work(&claim).await;
    drop(renewal);
    match done {
        Ok(answer) => complete(claim, answer).await,
        Err(error) => {
            give_back(claim, on_error).await;
            Err(OnceError::Work(error))
        }
    }
}

async fn complete<T: Serialize, E>(claim: Claim, answer: T) -> Result<T, OnceError<E>> {
    match claim.complete(&answer).await? {
        OnceSettled::Done => Ok(answer),
        OnceSettled::Stale => Err(OnceError::Stale(claim.id().clone())),
    }
}

/// Releases the claim. An error is only logged, because the caller must get the error of the work.
async fn give_back(claim: Claim, released: Released) {
    if let Err(error) = claim.give_back(released).await {
        tracing::warn!(claim = %claim.id(), %error, "not given back; the key is unknown when the lease is over");
    }
}
