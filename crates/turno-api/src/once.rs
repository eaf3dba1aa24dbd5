//! Once: requests that are processed once.
//!
//! A once key is *in flight* while a run of it has a valid lease. It is *done* for as long as its answer is kept. It is *unknown*
//! when the lease of a run expired without an answer; the store keeps this state for as long as it would have kept the answer, at
//! least for [`UNKNOWN_KEPT`].

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::duration::WireDuration;
use crate::ids::{OnceClaim, Token};
use crate::json::JsonText;
use crate::names::named;
#[cfg(feature = "schema")]
use crate::openapi_types::{Json, LeaseDuration, Name, OnceClaimName, Text, WaitDuration};
use crate::page::DEFAULT_PAGE;
use crate::request::request;

/// How long the store keeps the state unknown, if it would have kept the answer for less.
pub const UNKNOWN_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a waiter for an answer is notified after its last call.
pub const ONCE_WAITER_ALIVE: Duration = Duration::from_secs(10);

named! {
    /// What to do if an earlier run is unknown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum AfterUnknown as "unknown" {
        /// Report it and begin no run.
        #[default]
        Refuse = "refuse",
        /// Begin another run.
        Rerun = "rerun",
    }
}

/// What the caller does if a run is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhileInFlight {
    /// It does not wait.
    #[default]
    Leave,
    /// It waits, and is notified for [`ONCE_WAITER_ALIVE`].
    Wait,
}

/// The limit of live keys of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The scope whose keys are counted.
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub scope: String,
    /// Maximum number of live keys. On PostgreSQL, runs that begin at the same moment can exceed it by a few.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1_000_000))]
    pub most: u32,
}

/// Parameters of `OnceStore::once_begin`.
#[derive(Debug, Clone)]
pub struct OnceBegin {
    /// The once key.
    pub key: String,
    /// The fingerprint of the request; `None` is not compared.
    pub fingerprint: Option<String>,
    /// How long the run is valid unless it is extended.
    pub lease: Duration,
    /// How long the answer is kept; zero keeps none.
    pub ttl: Duration,
    /// What to do if an earlier run is unknown.
    pub unknown: AfterUnknown,
    /// What the caller does if a run is in flight.
    pub in_flight: WhileInFlight,
    /// The name of the worker, for people.
    pub worker: Option<String>,
    /// The quota against which the key counts.
    pub quota: Option<Quota>,
    /// The request id: a repeated call changes nothing and has the same outcome.
    pub request: Uuid,
}

/// Outcome of `OnceStore::once_begin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnceOutcome {
    /// The caller has the run and must do the work.
    Fresh(OnceGrant),
    /// The work is done.
    Replay {
        /// The answer as JSON text; `None` if it was not stored.
        answer: Option<String>,
    },
    /// Another run is in flight.
    InFlight(OnceRun),
    /// The key belongs to a request with another fingerprint.
    Mismatch,
    /// The lease of an earlier run expired without an answer.
    Unknown(OnceRun),
    /// The scope has reached its quota of live keys.
    OverQuota,
}

/// The right to do the work of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OnceGrant {
    /// The claim of the run, by which it is completed and released.
    #[cfg_attr(feature = "schema", schema(value_type = OnceClaimName))]
    pub claim: OnceClaim,
    /// Number of runs that began without an end, this one included.
    pub attempt: u32,
    /// When the run ends unless it is extended, on the store's clock.
    pub expires_at: Timestamp,
    /// The time until then, in milliseconds.
    #[serde(rename = "remaining_ms", with = "crate::duration::as_ms")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub remaining: Duration,
}

/// The run of another caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceRun {
    /// The name of the worker, for people.
    pub worker: Option<String>,
    /// The number of the run, counted from one.
    pub attempt: u32,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ends unless it is extended.
    pub expires_at: Timestamp,
    /// The time until then, in milliseconds.
    #[serde(rename = "remaining_ms", with = "crate::duration::as_ms")]
    pub remaining: Duration,
}

/// Parameters of `OnceStore::once_complete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceComplete {
    /// The claim of the run.
    pub claim: OnceClaim,
    /// The answer as JSON text; `None` stores only that the work is done.
    pub answer: Option<String>,
    /// How long the answer is kept. Default: that of the begin.
    pub ttl: Option<Duration>,
}

named! {
    /// What a run did before it was released.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Released as "outcome" {
        /// Nothing: the next caller does the work.
        #[default]
        Undone = "undone",
        /// Its effect is unknown: the next caller gets `unknown`.
        Unknown = "unknown",
    }
}

/// Parameters of `OnceStore::once_release`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceRelease {
    /// The claim of the run.
    pub claim: OnceClaim,
    /// What the run did.
    pub released: Released,
}

/// Parameters of `OnceStore::once_extend`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceExtend {
    /// The claim of the run.
    pub claim: OnceClaim,
    /// The new lease, counted from now.
    pub lease: Duration,
}

/// Parameters of `OnceStore::once_forget`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceForget {
    /// The once key.
    pub key: String,
    /// The operator, for the history.
    pub user: Option<String>,
    /// The reason, for the history.
    pub reason: Option<String>,
}

/// Parameters of `OnceStore::once_resolve`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnceResolve {
    /// The once key.
    pub key: String,
    /// The answer as JSON text; `None`: the work was done, and its answer is not known.
    pub answer: Option<String>,
    /// The operator, for the history.
    pub user: Option<String>,
    /// How the operator knows that the work was done, for the history.
    pub reason: Option<String>,
}

/// Outcome of `OnceStore::once_resolve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnceResolved {
    /// The key is done, with this answer.
    Resolved,
    /// A run of the key has a valid lease; nothing was changed.
    InFlight(OnceRun),
    /// The key has an answer already; nothing was changed.
    Answered,
    /// The store does not know the key; nothing was changed.
    NotFound,
}

/// Outcome of a call that ends or extends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnceSettled {
    /// The change was applied.
    Done,
    /// The claim is not the newest of its key, or its run has ended. Nothing was changed.
    Stale,
}

impl OnceSettled {
    /// The outcome of a statement that changed a row or not.
    #[doc(hidden)]
    pub fn of(done: bool) -> Self {
        if done {
            OnceSettled::Done
        } else {
            OnceSettled::Stale
        }
    }
}

named! {
    /// The state of a once key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum OnceState as "state" {
        /// A run has a valid lease.
        InFlight = "in_flight",
        /// The work is done. The answer is kept, or only that there was one.
        Done = "done",
        /// The lease of a run expired without an answer.
        Unknown = "unknown",
    }
}

/// Parameters of `OnceStore::once_list`.
#[derive(Debug, Clone)]
pub struct OnceList {
    /// One state. Default: all.
    pub state: Option<OnceState>,
    /// The prefix of the keys.
    pub prefix: String,
    /// The last key of the previous page; empty for the first page.
    pub after: String,
    /// The size of the page. Default: 100.
    pub limit: u32,
}

impl Default for OnceList {
    fn default() -> Self {
        OnceList {
            state: None,
            prefix: String::new(),
            after: String::new(),
            limit: DEFAULT_PAGE,
        }
    }
}

/// A once key and its state: `GET /v1/once-keys/{key}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OnceView {
    /// The claim of the newest run.
    #[cfg_attr(feature = "schema", schema(value_type = OnceClaimName))]
    pub claim: OnceClaim,
    /// The once key.
    pub key: String,
    /// The state.
    pub state: OnceState,
    /// Number of runs that began without an end, and the last one.
    pub attempt: u32,
    /// The fingerprint of the request.
    pub fingerprint: Option<String>,
    /// The worker that does or did the work.
    pub worker: Option<String>,
    /// The scope against whose quota the key counts.
    pub scope: Option<String>,
    /// When the newest run began.
    pub began_at: Timestamp,
    /// In flight: when the run ends. Done: when the answer is deleted. Unknown: since when.
    pub expires_at: Timestamp,
    /// Number of stale runs that reported after another run had begun.
    pub late: u32,
    /// The answer; absent if there is none.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub answer: Option<JsonText>,
}

request! {
    /// Begins the run of a key, or reports the state of the key: `POST /v1/once`
    #[derive(Default)]
    pub struct Begin {
        /// The once key.
        key: String as Name,
    } optional {
        /// The fingerprint of the request. Default: not compared.
        fingerprint: String as Name,
        /// How long the run is valid unless it is extended. Default: 30 seconds.
        lease: WireDuration as LeaseDuration,
        /// How long the answer is kept; zero keeps none. Default: one day.
        ttl: WireDuration,
        /// Wait this long for the answer of another run.
        wait: WireDuration as WaitDuration,
        /// What to do if an earlier run is unknown. Default: refuse.
        unknown: AfterUnknown,
        /// The name of the worker, for people.
        worker: String as Name,
        /// The quota against which the key counts.
        #[serde(deserialize_with = "crate::object::maybe")]
        quota: Quota,
        /// The request id: a repeated request changes nothing and has the same response.
        request: Uuid,
    }
}

/// The caller has the run and must do the work: 201.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Begun {
    /// The once key.
    pub key: String,
    /// The fencing token: larger than that of every earlier run.
    pub token: Token,
    /// The run.
    #[serde(flatten)]
    pub grant: OnceGrant,
}

/// The work is done: 200.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Replayed {
    /// The stored answer; null if none was stored.
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub replay: Option<JsonText>,
    /// Whether an answer was stored: a stored answer may itself be null.
    pub stored: bool,
}

impl Replayed {
    /// Returns the stored answer as JSON text, if there is one.
    pub fn into_answer(self) -> Option<String> {
        let answer = self.replay.map_or_else(|| "null".to_owned(), Into::into);
        self.stored.then_some(answer)
    }
}

request! {
    /// Ends a run with its answer: `PUT /v1/once/{claim}`
    #[derive(Default)]
    pub struct Complete {} optional {
        /// The answer: any JSON. Without it, only that the work is done is stored.
        #[serde(deserialize_with = "crate::json::present")]
        #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
        answer: JsonText,
        /// How long the answer is kept. Default: that of the begin.
        ttl: WireDuration,
    }
}

request! {
    /// Extends a run: `PATCH /v1/once/{claim}`
    #[derive(Default)]
    pub struct Extend {} optional {
        /// The new lease, counted from now. Default: 30 seconds.
        lease: WireDuration as LeaseDuration,
    }
}

/// One page of keys: `GET /v1/once`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Keys {
    /// In order.
    pub keys: Vec<OnceView>,
    /// Cursor of the next page (`after`); absent if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

request! {
    /// Reports that the work of an unknown key was done: `PUT /v1/once-keys/{key}`
    #[derive(Default)]
    pub struct Resolve {} optional {
        /// The answer: any JSON. Without it, only that the work is done is stored.
        #[serde(deserialize_with = "crate::json::present")]
        #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
        answer: JsonText,
        /// The operator. Default: the name of the access token.
        user: String as Name,
        /// How the operator knows that the work was done; for the history.
        reason: String as Text,
    }
}

/// Whether a key was deleted: `DELETE /v1/once-keys/{key}`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Forgotten {
    /// False if the key is not stored, or in flight.
    pub forgotten: bool,
}
