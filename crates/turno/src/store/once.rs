//! Once's part of the seam: what a store must be able to do with requests that are answered once.
//!
//! A key is *in flight* while somebody does its work, then *done* for as long as its answer is kept. It is *unknown* when
//! whoever did the work has vanished half-way; that is remembered for as long as the answer would have been kept, and for
//! a day at least.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::Token;
use crate::check;
use crate::error::{Error, Result};

/// The verbs of once.
#[async_trait]
pub trait OnceStore {
    /// Takes the work of a key, or says what became of it.
    async fn once_begin(&self, ask: &OnceBegin) -> Result<OnceOutcome>;

    /// [`OnceStore::once_begin`] for a store that can wait for the answer of a run in flight by itself: in flight, if that
    /// did not come in time. `None` if it cannot, as most: the library waits then.
    async fn once_begin_waiting(
        &self,
        ask: &OnceBegin,
        wait: Duration,
    ) -> Result<Option<OnceOutcome>> {
        let _ = (ask, wait);
        Ok(None)
    }

    /// Ends the work with its answer. Said twice, it is the same; the first answer stays.
    async fn once_complete(&self, ask: &OnceComplete) -> Result<OnceSettled>;

    /// Gives a claim back.
    async fn once_release(&self, ask: &OnceRelease) -> Result<OnceSettled>;

    /// Says that the work still goes on.
    async fn once_extend(&self, ask: &OnceExtend) -> Result<OnceSettled>;

    /// What is known of a key.
    async fn once_status(&self, key: &str) -> Result<Option<OnceView>>;

    /// One page of the keys, in order, without their answers.
    async fn once_list(&self, ask: &OnceList) -> Result<Vec<OnceView>>;

    /// Forgets a key that is not in flight, and records it. False if there is none.
    async fn once_forget(&self, ask: &OnceForget) -> Result<bool>;

    /// Gives an answer to a key that is unknown, and records it. The claim of the run that vanished is stale from then on.
    async fn once_resolve(&self, ask: &OnceResolve) -> Result<OnceResolved>;
}

/// How long it is remembered that a run vanished, if its answer would have been kept for less.
pub const UNKNOWN_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long somebody who waits is to be called, after it last asked.
pub const ONCE_WAITER_ALIVE: Duration = Duration::from_secs(10);

/// The name of one run: its key and its token, written `KEY@1794708000000000`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnceClaim {
    /// Whose work it is.
    pub key: String,
    /// Fences it: of all who began the work of this key, the answer of the one with the highest token counts.
    pub token: Token,
}

impl fmt::Display for OnceClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.token)
    }
}

impl FromStr for OnceClaim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // From the right: a key may have an @ of its own.
        let parts = text.rsplit_once('@').and_then(|(key, token)| {
            let is_number = token.bytes().all(|byte| byte.is_ascii_digit());
            Some((key, token.parse().ok().filter(|_| is_number)?))
        });
        let Some((key, token)) = parts else {
            return Err(Error::invalid(
                "claim",
                "a claim looks like KEY@TOKEN, as begin answered it",
            ));
        };
        check::name("claim", key)?;
        Ok(OnceClaim {
            key: key.to_owned(),
            token: Token(token),
        })
    }
}

impl Serialize for OnceClaim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OnceClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// What whoever finds an unknown run wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterUnknown {
    /// To be told, and to do nothing.
    #[default]
    Refuse,
    /// To take the work over.
    Rerun,
}

impl AfterUnknown {
    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            AfterUnknown::Refuse => "refuse",
            AfterUnknown::Rerun => "rerun",
        }
    }
}

/// What whoever finds a run in flight will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhileInFlight {
    /// Go away.
    #[default]
    Leave,
    /// Wait, and want to be called: good for [`ONCE_WAITER_ALIVE`].
    Wait,
}

/// Whose keys are counted, and how many may live at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Whose.
    pub scope: String,
    /// How many. Those that begin at the very same moment may be a few more, on PostgreSQL.
    pub most: u32,
}

/// Parameters of [`OnceStore::once_begin`].
#[derive(Debug, Clone)]
pub struct OnceBegin {
    /// The identity of the request.
    pub key: String,
    /// The hash of its content; `None` is not compared.
    pub fingerprint: Option<String>,
    /// For how long the work is this caller's, unless extended.
    pub lease: Duration,
    /// For how long the answer is kept; zero: not at all.
    pub ttl: Duration,
    /// What to do if an earlier run has vanished.
    pub unknown: AfterUnknown,
    /// What the caller does if the work is in flight.
    pub in_flight: WhileInFlight,
    /// Who does the work, as a person sees it.
    pub worker: Option<String>,
    /// Against which quota the key counts.
    pub quota: Option<Quota>,
    /// The identity of this call: applying it twice changes nothing.
    pub request: Uuid,
}

/// Answer of [`OnceStore::once_begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnceOutcome {
    /// The work is the caller's now.
    Fresh(OnceGrant),
    /// It is done.
    Replay {
        /// As JSON text; `None` if it was not stored.
        answer: Option<String>,
    },
    /// Somebody does it.
    InFlight(OnceRun),
    /// The key is that of a request with other content.
    Mismatch,
    /// Somebody did it, and vanished half-way.
    Unknown(OnceRun),
    /// The caller has as many live keys as it may.
    OverQuota,
}

/// The right to do the work of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceGrant {
    /// Its name.
    pub claim: OnceClaim,
    /// How many runs began without an end, this one included.
    pub attempt: u32,
    /// When it ends unless extended, on the store's clock.
    pub expires_at: Timestamp,
    /// From now until then.
    pub remaining: Duration,
}

/// A run of somebody else's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceRun {
    /// Who does it, as a person sees it.
    pub worker: Option<String>,
    /// The how-manieth run it is.
    pub attempt: u32,
    /// Since when.
    pub began_at: Timestamp,
    /// Until when, unless extended.
    pub expires_at: Timestamp,
    /// From now until then, in milliseconds.
    #[serde(rename = "remaining_ms", with = "super::as_ms")]
    pub remaining: Duration,
}

/// Parameters of [`OnceStore::once_complete`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceComplete {
    /// Whose run ends.
    pub claim: OnceClaim,
    /// As JSON text; `None`: it is known that the work is done, and no more.
    pub answer: Option<String>,
    /// For how long it is kept, if not as begin said.
    pub ttl: Option<Duration>,
}

/// What may be done with work that is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Released {
    /// Nothing was done: whoever asks next does it.
    #[default]
    Undone,
    /// Something may have been done.
    Unknown,
}

/// Parameters of [`OnceStore::once_release`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceRelease {
    /// Whose run ends.
    pub claim: OnceClaim,
    /// What it did.
    pub released: Released,
}

/// Parameters of [`OnceStore::once_extend`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceExtend {
    /// Whose run goes on.
    pub claim: OnceClaim,
    /// For how long from now.
    pub lease: Duration,
}

/// Parameters of [`OnceStore::once_forget`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceForget {
    /// The identity of the request.
    pub key: String,
    /// Who does it, for the history.
    pub user: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Parameters of [`OnceStore::once_resolve`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnceResolve {
    /// The identity of the request.
    pub key: String,
    /// As JSON text; `None`: the work was done, and its answer is not known.
    pub answer: Option<String>,
    /// The operator, for the history.
    pub user: Option<String>,
    /// How the operator knows that the work was done, for the history.
    pub reason: Option<String>,
}

/// Answer of [`OnceStore::once_resolve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnceResolved {
    /// The key is done, with this answer.
    Resolved,
    /// A run of the key has a live lease; nothing was changed.
    InFlight(OnceRun),
    /// The key has an answer already; nothing was changed.
    Answered,
    /// The store does not know the key; nothing was changed.
    NotFound,
}

/// Answer to a claim that is settled or extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnceSettled {
    /// As asked.
    Done,
    /// The claim is not the newest, or not running any more; nothing was changed.
    Stale,
}

impl OnceSettled {
    pub(crate) fn of(done: bool) -> Self {
        if done {
            OnceSettled::Done
        } else {
            OnceSettled::Stale
        }
    }
}

/// What a key can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnceState {
    /// Somebody does the work.
    InFlight,
    /// It is done, and its answer is kept, or at least that there was one.
    Done,
    /// Somebody did it, and vanished half-way.
    Unknown,
}

impl OnceState {
    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            OnceState::InFlight => "in_flight",
            OnceState::Done => "done",
            OnceState::Unknown => "unknown",
        }
    }
}

impl fmt::Display for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OnceState {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        [OnceState::InFlight, OnceState::Done, OnceState::Unknown]
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| {
                Error::invalid(
                    "state",
                    format!("state is {word:?}, and must be in_flight, done or unknown"),
                )
            })
    }
}

/// Parameters of [`OnceStore::once_list`].
#[derive(Debug, Clone, Default)]
pub struct OnceList {
    /// One state, or all.
    pub state: Option<OnceState>,
    /// The beginning of the keys.
    pub prefix: String,
    /// The last key of the page before; empty for the first.
    pub after: String,
    /// The size of the page.
    pub limit: u32,
}

/// What people see of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OnceView {
    /// Its name, with the token of its newest run.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub claim: OnceClaim,
    /// The identity of the request.
    pub key: String,
    /// What it is now.
    pub state: OnceState,
    /// How many runs began without an end, and the last one.
    pub attempt: u32,
    /// The hash of the request's content.
    pub fingerprint: Option<String>,
    /// Who did or does the work.
    pub worker: Option<String>,
    /// Against whose quota it counts.
    pub scope: Option<String>,
    /// Since when.
    pub began_at: Timestamp,
    /// In flight: when the claim ends; done: when the answer is forgotten; unknown: since when.
    pub expires_at: Timestamp,
    /// How many came too late: somebody else had begun.
    pub late: u32,
    /// As JSON text; `None` if there is none, or in a list.
    #[serde(skip)]
    pub answer: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_survives_the_round_trip() {
        for key in ["a", "a@b", "POST /pagos/1", "ñ@1"] {
            let claim = OnceClaim {
                key: key.into(),
                token: Token(7),
            };
            assert_eq!(claim.to_string().parse::<OnceClaim>().unwrap(), claim);
        }
        for bad in ["", "a", "a@", "@1", "a@x", "a@-1", "a@+1"] {
            assert_eq!(
                bad.parse::<OnceClaim>().unwrap_err().field(),
                Some("claim"),
                "{bad}"
            );
        }
    }
}
