//! The runner: work that is done once, and answered to everybody.

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
    /// Somebody does the work.
    #[error("the work is in flight{}: ask again in a moment", by(.0))]
    InFlight(OnceRun),
    /// The key is that of a request with other content.
    #[error("the key belongs to a request with other content: use a new key for a new request")]
    Mismatch,
    /// Somebody did the work, and vanished half-way.
    #[error("an earlier run{} vanished half-way, and what it did is not known: look, then forget or resolve the key", by(.0))]
    Unknown(OnceRun),
    /// The caller has as many live keys as it may.
    #[error("there are too many live keys: wait until some are over")]
    OverQuota,
    /// The work is done, and its answer was not stored.
    #[error("the work is done, and its answer was not stored: look for its effects")]
    NotStored,
    /// The work was done here, and somebody else's run counts: its lease was over.
    #[error(
        "the answer of {0} came too late: somebody else's run counts. Ask again to get its answer"
    )]
    Stale(OnceClaim),
    /// The store does not answer, or an argument is out of rule. If the work was done, its answer is perhaps not stored.
    #[error(transparent)]
    Store(#[from] Error),
    /// The work's own error.
    #[error("the work failed")]
    Work(#[source] E),
}

fn by(run: &OnceRun) -> String {
    match &run.worker {
        Some(worker) => format!(" (by {worker}, since {})", run.began_at),
        None => format!(" (since {})", run.began_at),
    }
}

/// What a probe found out about a run that vanished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe<T> {
    /// It was done, and this is its answer.
    Done(T),
    /// It was not done.
    NotDone,
    /// That cannot be told.
    Unsure,
}

impl Once {
    /// Does some work, unless it is done already; answers its answer, or the one that was stored.
    ///
    /// The claim is extended while the work goes on. If the work fails, the key is free again, or unknown
    /// ([`Once::on_error`]); if it panics or is dropped half-way, the key is unknown.
    ///
    /// # Errors
    /// [`OnceError`] tells apart why there is no answer.
    pub async fn run<T, E>(
        self,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        self.run_with(async |_: &Claim| work().await).await
    }

    /// [`Once::run`] for work that wants its claim: the token to fence with, or to complete in its own transaction
    /// ([`Claim::complete_in`]) what it then answers.
    ///
    /// # Errors
    /// As there.
    pub async fn run_with<T, E>(
        self,
        work: impl AsyncFnOnce(&Claim) -> Result<T, E>,
    ) -> Result<T, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        match answered(self.begin().await?)? {
            Told::Answer(answer) => Ok(answer),
            Told::Yours(claim) => do_it(claim, work, self.on_error).await,
        }
    }

    /// [`Once::run_with`], and if an earlier run has vanished, a probe is asked first what became of it: say, the
    /// payment provider. It is asked by one at a time.
    ///
    /// # Errors
    /// As there; [`OnceError::Unknown`] if the probe cannot tell.
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
            Told::Answer(answer) => return Ok(answer),
            Told::Yours(claim) => claim,
        };
        if claim.attempt() == 1 {
            return do_it(claim, work, self.on_error).await;
        }
        let keeper = claim.auto_extend();
        let found = probe(&claim).await;
        drop(keeper);
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

/// What is known of a run that vanished, to whoever has taken it over: that it had by then.
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

enum Told<T> {
    Answer(T),
    Yours(Claim),
}

fn answered<T: DeserializeOwned, E>(begun: Begin) -> Result<Told<T>, OnceError<E>> {
    match begun {
        Begin::Fresh(claim) => Ok(Told::Yours(claim)),
        Begin::Replay(answer) => match answer.get()? {
            Some(answer) => Ok(Told::Answer(answer)),
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
    let keeper = claim.auto_extend();
    // A panic or a cancellation drops the claim, and leaves the key unknown.
    let done = work(&claim).await;
    drop(keeper);
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

/// The caller is to hear of the work's error, and not of this one.
async fn give_back(claim: Claim, released: Released) {
    if let Err(error) = claim.give_back(released).await {
        tracing::warn!(claim = %claim.id(), %error, "not given back; the key is unknown when the lease is over");
    }
}
