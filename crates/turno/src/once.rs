//! Once: a request is answered once, whoever repeats it.
//!
//! A request has a *key*, and perhaps a *fingerprint*, the hash of its content. Whoever comes first does the work and
//! stores its answer; whoever comes later is told it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let turno = turno::Turno::connect("sqlite::memory:").await?;
//! let charge = async || Ok::<_, std::convert::Infallible>("receipt 1".to_owned());
//! assert_eq!(turno.once("pago/77").run(charge).await?, "receipt 1");
//!
//! let again = async || Ok::<_, std::convert::Infallible>("receipt 2".to_owned());
//! assert_eq!(turno.once("pago/77").run(again).await?, "receipt 1");
//! # Ok(()) }
//! ```
//!
//! What is *not* promised: that the work itself is done exactly once when it is cut off half-way. A run that vanishes
//! (its process died, its lease is over) leaves the key *unknown*: the next one refuses, does it again, or asks a probe,
//! as it was told ([`Once::unknown`], [`Once::run_with_probe`]). Only work whose effects commit in the same database is whole
//! or not at all: complete it in the same transaction ([`Claim::complete_in`]).
//!
//! How a request of HTTP gets its key and its fingerprint: [`Identities`].

mod answer;
mod canonical;
mod claim;
#[cfg(feature = "http")]
pub mod http;
mod identity;
mod json;
#[cfg(any(feature = "http", test))]
mod pointer;
#[cfg(test)]
mod properties;
mod run;
mod seal;
mod wait;

use std::time::Duration;

use uuid::Uuid;

pub use self::answer::Answer;
pub use self::canonical::canonical_json;
pub use self::claim::{AutoExtend, Claim};
pub use self::identity::{Identities, Identity, MAX_KEY_BYTES, MIN_SECRET_BYTES, Request};
pub use self::json::{MAX_DEPTH, MAX_INTEGER_DIGITS};
pub use self::run::{OnceError, Probe};
pub use self::seal::AnswerKeys;
use crate::Turno;
use crate::check;
use crate::error::Result;
pub use crate::store::{
    AfterUnknown, OnceClaim, OnceList, OnceResolved, OnceRun, OnceSettled, OnceState, OnceView,
    Quota, Released,
};
use crate::store::{
    OnceBegin, OnceComplete, OnceExtend, OnceForget, OnceRelease, OnceResolve, WhileInFlight,
};

/// How long the work of a key is somebody's, unless extended.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// How long an answer is kept, unless said otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The name under which those who wait for a key are woken.
pub(crate) fn wake_name(key: &str) -> String {
    format!("once:{key}")
}

/// What to do with a key, on the way to [`Once::run`] or [`Once::begin`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before run or begin"]
pub struct Once {
    turno: Turno,
    ask: OnceBegin,
    request: Option<Uuid>,
    wait: Duration,
    on_error: Released,
    user: Option<String>,
    reason: Option<String>,
}

/// Outcome of [`Once::begin`]. It is exhaustive, so that the compiler reports an outcome that a caller does not handle.
#[derive(Debug)]
pub enum Begin {
    /// The work is yours.
    Fresh(Claim),
    /// It is done.
    Replay(Answer),
    /// Somebody does it.
    InFlight(OnceRun),
    /// The key is that of a request with other content.
    Mismatch,
    /// Somebody did it, and vanished half-way.
    Unknown(OnceRun),
    /// The caller has as many live keys as it may.
    OverQuota,
}

impl Begin {
    /// The claim, if the work is yours.
    pub fn fresh(self) -> Option<Claim> {
        match self {
            Begin::Fresh(claim) => Some(claim),
            _ => None,
        }
    }
}

impl Once {
    pub(crate) fn new(turno: Turno, key: String) -> Self {
        let worker = Some(turno.worker_name());
        let user = turno.settings().user.clone();
        Once {
            turno,
            ask: OnceBegin {
                key,
                fingerprint: None,
                lease: DEFAULT_LEASE,
                ttl: DEFAULT_TTL,
                unknown: AfterUnknown::Refuse,
                in_flight: WhileInFlight::Leave,
                worker,
                quota: None,
                request: Uuid::now_v7(),
            },
            request: None,
            wait: Duration::ZERO,
            on_error: Released::Undone,
            user,
            reason: None,
        }
    }

    /// The hash of the request's content: the same key with another one is a mismatch.
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.ask.fingerprint = Some(fingerprint.into());
        self
    }

    /// How long the work is this caller's before it counts as vanished; 30 seconds otherwise. [`Once::run`] extends it
    /// for as long as the work goes on.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.ask.lease = lease;
        self
    }

    /// How long the answer is kept; a day otherwise. Zero keeps none: then only those are turned away who come while
    /// the work is in flight.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ask.ttl = ttl;
        self
    }

    /// What to do if an earlier run has vanished: refuse, otherwise.
    pub fn unknown(mut self, unknown: AfterUnknown) -> Self {
        self.ask.unknown = unknown;
        self
    }

    /// Waits at most this long for the answer of somebody else's run; not at all, otherwise.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// At most so many live keys for one scope: a principal, a tenant.
    pub fn quota(mut self, scope: impl Into<String>, most: u32) -> Self {
        self.ask.quota = Some(Quota {
            scope: scope.into(),
            most,
        });
        self
    }

    /// What it means for [`Once::run`] if the work fails: that nothing was done, otherwise, so that the next one does it.
    pub fn on_error(mut self, released: Released) -> Self {
        self.on_error = released;
        self
    }

    /// Who does the work, as a person sees it; host and process, otherwise.
    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.ask.worker = Some(worker.into());
        self
    }

    /// The identity of this begin: sent again with the same, because its answer was lost, it is granted the same claim.
    /// Each begin has a fresh one otherwise.
    pub fn request(mut self, request: Uuid) -> Self {
        self.request = Some(request);
        self
    }

    /// Takes the work, or says what became of it.
    ///
    /// Cancel-safe: a claim that nobody heard of is given back.
    ///
    /// # Errors
    /// If an argument is out of rule, or the store does not answer.
    pub async fn begin(&self) -> Result<Begin> {
        let ask = &self.ask;
        check::name("key", &ask.key)?;
        check::optional_name("fingerprint", ask.fingerprint.as_deref())?;
        check::optional_name("worker", ask.worker.as_deref())?;
        check::lease(ask.lease)?;
        check::keep(ask.ttl)?;
        check::wait(self.wait)?;
        if let Some(quota) = &ask.quota {
            check::quota(quota)?;
        }
        let mut once = self.clone();
        // Whoever asks again, or with a clone, asks anew: the same question would be granted the same claim.
        once.ask.request = self.request.unwrap_or_else(Uuid::now_v7);
        wait::begin(&once).await
    }
}

/// Administration of a key.
impl Once {
    /// Sets who forgets or resolves the key, for the [history](Turno::history). Default: the user of the
    /// [settings](crate::Builder::user).
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets why the key is forgotten or resolved, for the [history](Turno::history). Default: none.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Returns what is known of the key, or `None`.
    ///
    /// # Errors
    /// Returns an error if the key is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// assert!(turno.once("pago/77").status().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn status(self) -> Result<Option<OnceView>> {
        check::name("key", &self.ask.key)?;
        let view = self.turno.store().once_status(&self.ask.key).await?;
        view.map(|view| answer::shown(&self.turno, view))
            .transpose()
    }

    /// Forgets a key that is done or unknown, for an operator: the next caller runs the work. Returns false if the key does
    /// not exist or its work is in flight. The [user](Once::user) and the [reason](Once::reason) go into the history.
    ///
    /// # Errors
    /// Returns an error if the key, the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").run(async || Ok::<_, turno::Error>(7)).await?;
    /// assert!(turno.once("pago/77").user("ana").reason("a test payment").forget().await?);
    /// # Ok(()) }
    /// ```
    pub async fn forget(self) -> Result<bool> {
        check::name("key", &self.ask.key)?;
        check::by_hand(self.user.as_deref(), self.reason.as_deref())?;
        let ask = OnceForget {
            key: self.ask.key.clone(),
            user: self.user.clone(),
            reason: self.reason.clone(),
        };
        self.turno.store().once_forget(&ask).await
    }

    /// Marks an unknown key as done, for an operator: each caller gets this answer (JSON text, or none) for the TTL of the run.
    /// The claim of the lost run is stale from then on. The [user](Once::user) and the [reason](Once::reason) go into the
    /// history. A key in another state is not changed; [`OnceResolved`] reports the state.
    ///
    /// # Errors
    /// Returns an error if the key, the answer, the user or the reason is invalid, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::OnceResolved;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?;
    /// claim.release_unknown().await?;
    ///
    /// let once = turno.once("pago/77").user("ana").reason("the bank has the payment");
    /// assert_eq!(once.clone().resolve(Some(r#"{"receipt": 1}"#)).await?, OnceResolved::Resolved);
    /// assert_eq!(once.resolve(None).await?, OnceResolved::Answered);
    /// # Ok(()) }
    /// ```
    pub async fn resolve(self, answer: Option<&str>) -> Result<OnceResolved> {
        check::name("key", &self.ask.key)?;
        check::by_hand(self.user.as_deref(), self.reason.as_deref())?;
        let ask = OnceResolve {
            key: self.ask.key.clone(),
            answer: answer::stored(&self.turno, &self.ask.key, answer)?,
            user: self.user.clone(),
            reason: self.reason.clone(),
        };
        let resolved = self.turno.store().once_resolve(&ask).await?;
        self.turno.store().wakers().wake(&wake_name(&ask.key));
        Ok(resolved)
    }
}

impl Turno {
    /// A request, known by its key: done once.
    pub fn once(&self, key: impl Into<String>) -> Once {
        Once::new(self.clone(), key.into())
    }

    /// Ends a run that is known by its claim only. The answer is JSON text.
    ///
    /// # Errors
    /// If the answer is no JSON or too large, or the store does not answer.
    pub async fn once_complete(
        &self,
        claim: &OnceClaim,
        answer: Option<&str>,
        ttl: Option<Duration>,
    ) -> Result<OnceSettled> {
        if let Some(ttl) = ttl {
            check::keep(ttl)?;
        }
        let ask = OnceComplete {
            claim: claim.clone(),
            answer: answer::stored(self, &claim.key, answer)?,
            ttl,
        };
        let settled = self.store().once_complete(&ask).await?;
        self.store().wakers().wake(&wake_name(&claim.key));
        Ok(settled)
    }

    /// Gives back a run that is known by its claim only.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn once_release(&self, claim: &OnceClaim, released: Released) -> Result<OnceSettled> {
        let ask = OnceRelease {
            claim: claim.clone(),
            released,
        };
        let settled = self.store().once_release(&ask).await?;
        self.store().wakers().wake(&wake_name(&claim.key));
        Ok(settled)
    }

    /// Extends a run that is known by its claim only.
    ///
    /// # Errors
    /// If the lease is out of rule, or the store does not answer.
    pub async fn once_extend(&self, claim: &OnceClaim, lease: Duration) -> Result<OnceSettled> {
        check::lease(lease)?;
        let ask = OnceExtend {
            claim: claim.clone(),
            lease,
        };
        self.store().once_extend(&ask).await
    }

    /// One page of the keys that are in flight, done or unknown, in order; without their answers.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn once_list(&self, mut ask: OnceList) -> Result<Vec<OnceView>> {
        ask.limit = ask.limit.clamp(1, check::MAX_PAGE);
        self.store().once_list(&ask).await
    }
}
