//! Once: the work of a request is done once, and each repetition of the request gets the stored answer.
//!
//! A request has a *key*, and optionally a *fingerprint*, the hash of its content. The first caller does the work and
//! stores its answer; later callers get that answer:
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
//! It is *not* promised that the work itself is done exactly once if it is interrupted. If a run ends without an answer
//! (its process died, its lease expired), the key becomes *unknown*: the next caller gets an error, does the work again, or
//! calls a probe, as configured ([`Once::unknown`], [`Once::run_with_probe`]). Only work whose effects are committed in the same
//! database is atomic: complete it in the same transaction ([`Claim::complete_in`]).
//!
//! For the key and the fingerprint of an HTTP request, see [`Identities`].

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
#[cfg(test)]
mod reference;
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

/// Default lease of a run.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// Default time for which an answer is kept.
pub const DEFAULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the name under which waiters of a key are woken.
pub(crate) fn wake_name(key: &str) -> String {
    format!("once:{key}")
}

/// Options of a request's key; ends with [`Once::run`] or [`Once::begin`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use turno::once::OnceError;
///
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let pay = |amount: &str| turno.once("pago/77").fingerprint(amount).ttl(Duration::from_secs(3600));
/// assert_eq!(pay("10.00").run(async || Ok::<_, Infallible>(1)).await?, 1);
/// assert_eq!(pay("10.00").run(async || Ok::<_, Infallible>(2)).await?, 1); // the stored answer
/// let other = pay("99.00").run(async || Ok::<_, Infallible>(3)).await;
/// assert!(matches!(other, Err(OnceError::Mismatch)));
/// # Ok(()) }
/// ```
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
    /// This caller has to do the work.
    Fresh(Claim),
    /// The work is done; this is its answer.
    Replay(Answer),
    /// Another caller is doing the work.
    InFlight(OnceRun),
    /// The key belongs to a request with different content.
    Mismatch,
    /// An earlier run ended without an answer.
    Unknown(OnceRun),
    /// The caller has reached its quota of live keys.
    OverQuota,
}

impl Begin {
    /// Returns the claim, if this caller has to do the work.
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

    /// Sets the hash of the request's content, at most 255 bytes. The same key with another fingerprint is a mismatch. Default:
    /// none, and the content is not compared.
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.ask.fingerprint = Some(fingerprint.into());
        self
    }

    /// Sets the lease: a run that is neither ended nor extended for this long becomes unknown. From 1 millisecond to 24 hours.
    /// Default: 30 seconds. [`Once::run`] extends it while the work is running.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.ask.lease = lease;
        self
    }

    /// Sets how long the answer is kept, at most ten years. Default: a day. With zero, no answer is kept: repetitions are then only
    /// rejected while the work is in flight.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ask.ttl = ttl;
        self
    }

    /// Sets what happens if an earlier run is unknown. Default: [`AfterUnknown::Refuse`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::AfterUnknown;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.release_unknown().await?;
    /// let again = turno.once("pago/77").unknown(AfterUnknown::Rerun);
    /// assert_eq!(again.run(async || Ok::<_, turno::Error>("receipt 1".to_owned())).await?, "receipt 1");
    /// # Ok(()) }
    /// ```
    pub fn unknown(mut self, unknown: AfterUnknown) -> Self {
        self.ask.unknown = unknown;
        self
    }

    /// Sets the maximum time to wait for the answer of another caller's run, at most 24 hours. Default: no wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the maximum number of live keys of one scope, such as a principal or a tenant, 1 to 1,000,000. Default: no limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::Begin;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let _claim = turno.once("pago/77").quota("ana", 1).begin().await?;
    /// assert!(matches!(turno.once("pago/78").quota("ana", 1).begin().await?, Begin::OverQuota));
    /// # Ok(()) }
    /// ```
    pub fn quota(mut self, scope: impl Into<String>, most: u32) -> Self {
        self.ask.quota = Some(Quota {
            scope: scope.into(),
            most,
        });
        self
    }

    /// Sets what a failure of the work means in [`Once::run`]. Default: nothing was done, and the next caller does the work.
    pub fn on_error(mut self, released: Released) -> Self {
        self.on_error = released;
        self
    }

    /// Sets the displayed name of the process that does the work. Default: host and process id.
    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.ask.worker = Some(worker.into());
        self
    }

    /// Sets the request id of this begin. If the response was lost, a repetition with the same id gets the same claim.
    /// Default: a new id for each begin.
    pub fn request(mut self, request: Uuid) -> Self {
        self.request = Some(request);
        self
    }

    /// Claims the work, or returns its state.
    ///
    /// Cancel-safe: a claim that does not reach the caller is released.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::Begin;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?;
    /// assert!(matches!(turno.once("pago/77").begin().await?, Begin::InFlight(_)));
    ///
    /// claim.complete("receipt 1").await?;
    /// let Begin::Replay(answer) = turno.once("pago/77").begin().await? else { panic!("the work is done") };
    /// assert_eq!(answer.get::<String>()?.as_deref(), Some("receipt 1"));
    /// # Ok(()) }
    /// ```
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
        // A second call, also with a clone, needs a new request id: the same one would get the same claim.
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

    /// Sets why the key is forgotten or resolved, for the [history](Turno::history), at most 1000 bytes. Default: none.
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
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::OnceState;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// assert!(turno.once("pago/77").status().await?.is_none());
    /// turno.once("pago/77").run(async || Ok::<_, turno::Error>(7)).await?;
    /// assert_eq!(turno.once("pago/77").status().await?.map(|view| view.state), Some(OnceState::Done));
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
        check::operator(self.user.as_deref(), self.reason.as_deref())?;
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
        check::operator(self.user.as_deref(), self.reason.as_deref())?;
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
    /// Returns the handle of a once key, at most 255 bytes: [`Once::run`], [`Once::begin`], [`Once::status`].
    pub fn once(&self, key: impl Into<String>) -> Once {
        Once::new(self.clone(), key.into())
    }

    /// Completes a run by its claim, for a process that has only the id of [`Claim::detach`]. The answer is JSON text, or `None`
    /// for no answer. `ttl` is how long it is kept, at most ten years; `None` is the TTL of the begin.
    ///
    /// # Errors
    /// Returns an error if the answer is not JSON or too large, or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::OnceSettled;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.detach();
    /// // In another process:
    /// assert_eq!(turno.once_complete(&claim, Some(r#"{"receipt": 1}"#), None).await?, OnceSettled::Done);
    /// # Ok(()) }
    /// ```
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

    /// Releases a run by its claim, for a process that has only the id of [`Claim::detach`].
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::{OnceSettled, Released};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.detach();
    /// assert_eq!(turno.once_release(&claim, Released::Undone).await?, OnceSettled::Done);
    /// assert!(turno.once("pago/77").begin().await?.fresh().is_some());
    /// # Ok(()) }
    /// ```
    pub async fn once_release(&self, claim: &OnceClaim, released: Released) -> Result<OnceSettled> {
        let ask = OnceRelease {
            claim: claim.clone(),
            released,
        };
        let settled = self.store().once_release(&ask).await?;
        self.store().wakers().wake(&wake_name(&claim.key));
        Ok(settled)
    }

    /// Extends a run by its claim: it expires `lease` from now, 1 millisecond to 24 hours.
    ///
    /// # Errors
    /// Returns an error if the lease is invalid or the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use turno::once::OnceSettled;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// let claim = turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.detach();
    /// assert_eq!(turno.once_extend(&claim, Duration::from_secs(60)).await?, OnceSettled::Done);
    /// # Ok(()) }
    /// ```
    pub async fn once_extend(&self, claim: &OnceClaim, lease: Duration) -> Result<OnceSettled> {
        check::lease(lease)?;
        let ask = OnceExtend {
            claim: claim.clone(),
            lease,
        };
        self.store().once_extend(&ask).await
    }

    /// Returns one page of the keys that are in flight, done or unknown, in order, without their answers. The page size is 1 to
    /// 1000.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::{OnceList, OnceState};
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").begin().await?.fresh().ok_or("a new key")?.release_unknown().await?;
    /// let unknown = OnceList { state: Some(OnceState::Unknown), prefix: "pago/".into(), ..OnceList::default() };
    /// assert_eq!(turno.once_list(unknown).await?[0].key, "pago/77");
    /// # Ok(()) }
    /// ```
    pub async fn once_list(&self, mut ask: OnceList) -> Result<Vec<OnceView>> {
        ask.limit = ask.limit.clamp(1, check::MAX_PAGE);
        self.store().once_list(&ask).await
    }
}
