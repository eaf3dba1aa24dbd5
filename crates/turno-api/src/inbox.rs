//! The inbox: items and claims.
//!
//! An item is *pending* until a worker claims it, *scheduled* before its due time and *processing* while its claim is valid. It
//! ends as *completed* or *failed*. A change to a claimed item must present its [`ClaimId`]. If the claim has ended, the call
//! reports it as stale and changes nothing.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::duration::WireDuration;
use crate::error::{Error, Result};
use crate::ids::{ClaimId, ItemId};
use crate::json::JsonText;
#[cfg(feature = "schema")]
use crate::openapi_types::{ClaimName, Json, LeaseDuration, Name, Text, WaitDuration};

/// How long a push wakes an idle worker after the worker's last registration.
pub const IDLE_ALIVE: Duration = Duration::from_secs(10);

/// Number of priorities: 0 is claimed first, 3 last.
pub const PRIORITIES: u8 = 4;

/// The default priority of an item.
pub const DEFAULT_PRIORITY: u8 = 1;

/// The default number of attempts of an item.
pub const DEFAULT_ATTEMPTS: u16 = 5;

/// No limit of attempts: only for the events of the outbox, about which relays decide.
pub const UNLIMITED_ATTEMPTS: u16 = 0;

/// Attempts whose outcome is unknown are counted up to this number. In SQL: `turno.inbox_doubt`.
pub const MAX_DOUBTS: u32 = 1_000_000;

/// Number of errors that an item keeps.
pub const ERRORS_KEPT: usize = 10;

/// Whether calls that arrive at the same time may share a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Batching {
    /// They may: one round trip and one commit for many callers, each with its own outcome.
    #[default]
    Batched,
    /// Each call is a statement of its own.
    Alone,
}

/// Parameters of `InboxStore::inbox_idle`: a worker that has nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxIdle {
    /// The queue that it works on.
    pub queue: String,
    /// How long it may sleep and wants to be notified; zero if it cannot be notified.
    pub listens: Duration,
    /// How long ago its last claim began.
    pub looked: Duration,
}

/// Outcome of `InboxStore::inbox_idle`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxIdleness {
    /// The time until there may be work without a push: the next due time, or the end of another worker's claim.
    pub due: Option<Duration>,
    /// The state since which every push is certain to wake the worker. A worker that has claimed since it first got this value
    /// can sleep. `None` if a push in progress may not wake it.
    pub sure: Option<String>,
}

/// An item to push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    /// The payload, as JSON text.
    pub payload: String,
    /// The unique key: at most one item with this key exists in the queue, for as long as the item or the record of its
    /// completion exists.
    pub key: Option<String>,
    /// Stored in the key's place when there is no key; not unique. The outbox stores an event's id here.
    pub label: Option<String>,
    /// The priority: 0 is claimed first, 3 last.
    pub priority: u8,
    /// The due time. Default: at once.
    pub due: Option<Due>,
    /// Items of one group are processed in the order of their pushes, one at a time.
    pub group: Option<String>,
    /// Maximum number of attempts; then the item has failed. 0 is no limit, for events of the outbox only.
    pub max_attempts: u16,
}

/// When an item may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after the push, on the store's clock.
    After(Duration),
    /// At this time, on the store's clock.
    At(Timestamp),
}

/// Parameters of `InboxStore::inbox_push`.
#[derive(Debug, Clone)]
pub struct InboxPush {
    /// The queue.
    pub queue: String,
    /// The items, in order.
    pub items: Vec<NewItem>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// The outcome of one pushed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedItem {
    /// The item's id; that of the existing item, if it is a duplicate.
    pub id: ItemId,
    /// Whether an item with this key existed already.
    pub duplicate: bool,
}

/// Parameters of `InboxStore::inbox_claim`.
#[derive(Debug, Clone)]
pub struct InboxClaim {
    /// The queue.
    pub queue: String,
    /// The name of the worker, for people.
    pub worker: String,
    /// Maximum number of items; may be 0.
    pub limit: u32,
    /// How long the claim is valid unless it is extended.
    pub lease: Duration,
    /// The request id, and the token of the claims. A repeated call returns the items of the first one that are still claimed.
    pub request: Uuid,
    /// Whether this claim may share a statement with others of the same worker. Claims of one statement share a token and cannot
    /// be repeated, so a caller that may have to repeat the call claims alone.
    pub batching: Batching,
}

/// A claimed item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimedItem {
    /// The item's id.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub id: ItemId,
    /// The claim, which every change to the item must present.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    pub claim: ClaimId,
    /// The attempt, counted from one; attempts that were abandoned count.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Number of earlier attempts whose claim expired.
    pub abandoned: u32,
    /// The payload.
    #[cfg_attr(feature = "schema", schema(value_type = Json))]
    pub payload: JsonText,
    /// The unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The priority: 0 is claimed first, 3 last.
    pub priority: u8,
    /// When the item was pushed, on the store's clock.
    pub pushed_at: Timestamp,
    /// When the claim ends unless it is extended, on the store's clock.
    pub expires_at: Timestamp,
}

/// Parameters of `InboxStore::inbox_complete`.
#[derive(Debug, Clone)]
pub struct InboxComplete {
    /// The claims to complete.
    pub claims: Vec<ClaimId>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Parameters of `InboxStore::inbox_turn`.
#[derive(Debug, Clone)]
pub struct InboxTurn {
    /// The claims to complete.
    pub complete: InboxComplete,
    /// The next claim.
    pub claim: InboxClaim,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The claim.
    pub claim: ClaimId,
    /// The error text.
    pub error: String,
    /// The pause before the next attempt. Default: exponential backoff with jitter.
    pub retry_in: Option<Duration>,
    /// Whether there is another attempt.
    pub again: Again,
}

/// Whether a failed item is attempted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// As long as attempts are left.
    #[default]
    Retry,
    /// Never: the item has failed at once.
    Never,
}

/// Parameters of `InboxStore::inbox_fail`.
#[derive(Debug, Clone)]
pub struct InboxFail {
    /// The failed attempts.
    pub failures: Vec<Failure>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Parameters of `InboxStore::inbox_give_back`.
#[derive(Debug, Clone)]
pub struct InboxGiveBack {
    /// The claims whose processing has not begun.
    pub claims: Vec<ClaimId>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Parameters of `InboxStore::inbox_extend`.
#[derive(Debug, Clone)]
pub struct InboxExtend {
    /// The claims to extend.
    pub claims: Vec<ClaimId>,
    /// The new lease, counted from now.
    pub lease: Duration,
}

/// The outcome of a change to claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Settled {
    /// Number of claims that were changed.
    pub done: u64,
    /// The claims that had ended, in the order of the request. Nothing was changed for them.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimName>))]
    pub stale: Vec<ClaimId>,
}

/// Parameters of `InboxStore::inbox_requeue` and `InboxStore::inbox_discard`.
#[derive(Debug, Clone)]
pub struct InboxFailedItems {
    /// The queue.
    pub queue: String,
    /// The items. Default: all that have failed.
    pub ids: Option<Vec<ItemId>>,
    /// Maximum number of items, the oldest failures first.
    pub limit: u32,
    /// The operator, for the history.
    pub user: Option<String>,
    /// The reason, for the history.
    pub reason: Option<String>,
}

/// Parameters of `InboxStore::inbox_reset`.
#[derive(Debug, Clone)]
pub struct InboxReset {
    /// The queue.
    pub queue: String,
    /// Only items that were claimed at least this long ago.
    pub older_than: Duration,
    /// Approximate maximum number of items; items of one claim are reset together.
    pub limit: u32,
    /// The operator, for the history.
    pub user: Option<String>,
    /// The reason, for the history.
    pub reason: Option<String>,
}

/// Parameters of `InboxStore::inbox_stats`.
#[derive(Debug, Clone, Default)]
pub struct InboxStats {
    /// One queue. Default: all.
    pub queue: Option<String>,
    /// The prefix of the names, if no queue is given.
    pub prefix: String,
}

/// Number of items of a queue, per state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// All items that were ever pushed and not discarded.
    pub total: u64,
    /// Waiting for a worker.
    pub pending: u64,
    /// Waiting for their due time.
    pub scheduled: u64,
    /// Claimed by workers.
    pub processing: u64,
    /// Completed since the queue began.
    pub completed: u64,
    /// Failed, until an operator requeues or discards them.
    pub failed: u64,
    /// How long the oldest pending item has been due, in milliseconds; `None` if none is pending.
    #[serde(
        rename = "oldest_pending_ms",
        with = "crate::duration::as_optional_ms",
        default
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub oldest_pending: Option<Duration>,
}

/// The state of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// Waiting for a worker.
    Pending,
    /// Waiting for its due time.
    Scheduled,
    /// Claimed by a worker.
    Processing,
    /// Completed.
    Completed,
    /// Failed: no attempts left.
    Failed,
}

impl ItemState {
    /// All states.
    pub const ALL: [ItemState; 5] = [
        ItemState::Pending,
        ItemState::Scheduled,
        ItemState::Processing,
        ItemState::Completed,
        ItemState::Failed,
    ];

    /// The name in stores and interfaces.
    pub fn as_str(self) -> &'static str {
        match self {
            ItemState::Pending => "pending",
            ItemState::Scheduled => "scheduled",
            ItemState::Processing => "processing",
            ItemState::Completed => "completed",
            ItemState::Failed => "failed",
        }
    }
}

impl fmt::Display for ItemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ItemState {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        ItemState::ALL
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| {
                Error::invalid(
                    "state",
                    "state must be pending, scheduled, processing, completed or failed",
                )
            })
    }
}

/// Parameters of `InboxStore::inbox_list`.
#[derive(Debug, Clone)]
pub struct InboxList {
    /// The queue.
    pub queue: String,
    /// Only items in this state.
    pub state: ItemState,
    /// The last item of the previous page.
    pub after: Option<ItemId>,
    /// The size of the page.
    pub limit: u32,
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ItemView {
    /// The item's id.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub id: ItemId,
    /// The state.
    pub state: ItemState,
    /// The payload; not kept for a completed item.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub payload: Option<JsonText>,
    /// The unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The priority: 0 is claimed first, 3 last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Number of attempts that failed or were abandoned.
    pub attempts: u32,
    /// Number of attempts that were abandoned: the claim expired.
    pub abandoned: u32,
    /// The worker that processes the item, or did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When the item was pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_at: Option<Timestamp>,
    /// When the state began; for a scheduled item, its due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The last errors, oldest first.
    pub errors: Vec<AttemptError>,
}

/// The error of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AttemptError {
    /// The attempt, counted from one.
    pub attempt: u32,
    /// When the attempt ended.
    pub at: Timestamp,
    /// `failed`: the handler reported an error. `abandoned`: the claim expired.
    pub kind: String,
    /// The error text.
    pub error: String,
    /// The worker.
    pub worker: Option<String>,
}

/// Pushes items: `POST /v1/inbox/{queue}`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// The items, in order; all or none are stored.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 10_000))]
    #[serde(deserialize_with = "crate::object::objects")]
    pub items: Vec<PushItem>,
    /// The request id: a repeated request changes nothing and has the same response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// An item to push.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PushItem {
    /// The payload: any JSON.
    #[cfg_attr(feature = "schema", schema(value_type = Json))]
    pub payload: Box<RawValue>,
    /// The unique key: at most one item with this key exists in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub key: Option<String>,
    /// The priority: 0 is claimed first, 3 last. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 3))]
    pub priority: Option<u8>,
    /// The time until the item is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<WireDuration>,
    /// The due time; instead of `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Items of one group are processed in order, one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub group: Option<String>,
    /// Maximum number of attempts; then the item has failed. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    pub max_attempts: Option<u16>,
}

/// The outcome of pushed items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pushed {
    /// One id per item, in their order; that of the existing item, if it is a duplicate.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<i64>))]
    pub ids: Vec<ItemId>,
    /// The ids of the items that existed already.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<i64>))]
    pub duplicates: Vec<ItemId>,
    /// Their positions in the request, from 0.
    pub duplicate_places: Vec<u32>,
}

impl Pushed {
    /// Converts the outcomes of pushed items, in their order.
    pub fn of(items: &[PushedItem]) -> Self {
        let duplicates = || items.iter().enumerate().filter(|(_, item)| item.duplicate);
        Pushed {
            ids: items.iter().map(|item| item.id).collect(),
            duplicates: duplicates().map(|(_, item)| item.id).collect(),
            duplicate_places: duplicates()
                .map(|(place, _)| u32::try_from(place).unwrap_or(u32::MAX))
                .collect(),
        }
    }
}

/// Claims items: `POST /v1/inbox/{queue}/claim`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name of the worker, for people.
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub worker: String,
    /// Maximum number of items. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
    pub limit: Option<u32>,
    /// How long the claim is valid unless it is extended. Default: that of the server's configuration, else 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseDuration>))]
    pub lease: Option<WireDuration>,
    /// Wait this long for a first item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<WaitDuration>))]
    pub wait: Option<WireDuration>,
    /// The request id: a repeated request returns the items of the first one that are still claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// Claimed items.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Claimed {
    /// In the order in which they should be processed; empty if none is due.
    pub items: Vec<ClaimedItem>,
}

/// Completes items, `POST /v1/inbox/{queue}/complete`, or gives them back, `POST /v1/inbox/{queue}/give-back`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CompleteClaims {
    /// The claims.
    #[serde(deserialize_with = "claims::<CompletedClaim, _, _>")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimOr<CompletedClaim>>, min_items = 1, max_items = 10_000))]
    pub claims: Vec<ClaimId>,
    /// The request id: a repeated request changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// A claim.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
struct CompletedClaim {
    /// The claim.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    claim: ClaimId,
}

impl From<CompletedClaim> for ClaimId {
    fn from(completed: CompletedClaim) -> Self {
        completed.claim
    }
}

/// Records failed attempts: `POST /v1/inbox/{queue}/fail`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FailClaims {
    /// The claims, each alone or with its error.
    #[serde(deserialize_with = "claims::<FailedClaim, _, _>")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimOr<FailedClaim>>, min_items = 1, max_items = 10_000))]
    pub claims: Vec<FailedClaim>,
    /// The request id: a repeated request changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// A claim and its error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FailedClaim {
    /// The claim.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    pub claim: ClaimId,
    /// The error text, truncated to 4000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The pause before the next attempt. Default: exponential backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in: Option<WireDuration>,
    /// Do not attempt the item again: it has failed at once. Default: false.
    #[serde(default, rename = "final", skip_serializing_if = "Option::is_none")]
    pub last: Option<bool>,
}

impl From<ClaimId> for FailedClaim {
    fn from(claim: ClaimId) -> Self {
        FailedClaim {
            claim,
            error: None,
            retry_in: None,
            last: None,
        }
    }
}

impl From<&Failure> for FailedClaim {
    fn from(failure: &Failure) -> Self {
        FailedClaim {
            claim: failure.claim,
            error: Some(failure.error.clone()),
            retry_in: failure.retry_in.map(WireDuration),
            last: (failure.again == Again::Never).then_some(true),
        }
    }
}

/// Extends claims: `POST /v1/inbox/{queue}/extend`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExtendClaims {
    /// The claims, each alone or with its lease.
    #[serde(deserialize_with = "claims::<ExtendedClaim, _, _>")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ClaimOr<ExtendedClaim>>, min_items = 1, max_items = 10_000))]
    pub claims: Vec<ExtendedClaim>,
    /// Has no effect: extending twice is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// A claim and its lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExtendedClaim {
    /// The claim.
    #[cfg_attr(feature = "schema", schema(value_type = ClaimName))]
    pub claim: ClaimId,
    /// The new lease, counted from now. Default: that of the server's configuration, else 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseDuration>))]
    pub lease: Option<WireDuration>,
}

impl From<ClaimId> for ExtendedClaim {
    fn from(claim: ClaimId) -> Self {
        ExtendedClaim { claim, lease: None }
    }
}

impl AsRef<ClaimId> for ClaimId {
    fn as_ref(&self) -> &ClaimId {
        self
    }
}

impl AsRef<ClaimId> for FailedClaim {
    fn as_ref(&self) -> &ClaimId {
        &self.claim
    }
}

impl AsRef<ClaimId> for ExtendedClaim {
    fn as_ref(&self) -> &ClaimId {
        &self.claim
    }
}

/// Deserializes claims that are either a string, the claim alone, or an object. An untagged enum could not report which field of
/// an object is invalid.
fn claims<'de, O, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    O: Deserialize<'de> + Into<T>,
    T: From<ClaimId>,
    D: Deserializer<'de>,
{
    struct Either<O, T>(T, PhantomData<O>);

    impl<'de, O: Deserialize<'de> + Into<T>, T: From<ClaimId>> Deserialize<'de> for Either<O, T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(ClaimVisitor(PhantomData))
        }
    }

    struct ClaimVisitor<O, T>(PhantomData<(O, T)>);

    impl<'de, O: Deserialize<'de> + Into<T>, T: From<ClaimId>> Visitor<'de> for ClaimVisitor<O, T> {
        type Value = Either<O, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a claim, or an object with one")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let claim: ClaimId = text.parse().map_err(E::custom)?;
            Ok(Either(claim.into(), PhantomData))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let object = O::deserialize(MapAccessDeserializer::new(map))?;
            Ok(Either(object.into(), PhantomData))
        }
    }

    let claims = Vec::<Either<O, T>>::deserialize(deserializer)?;
    Ok(claims.into_iter().map(|claim| claim.0).collect())
}

/// A claim alone, or in an object.
#[cfg(feature = "schema")]
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described")]
enum ClaimOr<T> {
    /// The claim alone.
    Alone(ClaimName),
    /// In an object.
    Object(T),
}

/// Statistics of queues: `GET /v1/inbox`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Queues {
    /// In order of their names.
    pub queues: Vec<QueueStats>,
}

/// One page of items: `GET /v1/inbox/{queue}/items`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Items {
    /// In order of their ids; completed ones newest first.
    pub items: Vec<ItemView>,
    /// Cursor of the next page (`after`); absent if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<i64>))]
    pub next: Option<ItemId>,
}

/// Failed items to requeue, `POST /v1/inbox/{queue}/requeue`, or to discard, `POST /v1/inbox/{queue}/discard`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FailedItems {
    /// The items. Default: all that have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<i64>>, max_items = 10_000))]
    pub ids: Option<Vec<ItemId>>,
    /// The operator, for the history. Default: the name of the access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// The reason, for the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub reason: Option<String>,
}

/// Number of requeued items or events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Requeued {
    /// The number.
    pub requeued: u64,
}

/// Ends the claims of workers that hang: `POST /v1/inbox/{queue}/reset`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Only items that were claimed at least this long ago. Default: 15 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<WireDuration>,
    /// The operator, for the history. Default: the name of the access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// The reason, for the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub reason: Option<String>,
}

/// Number of items that were reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResetResponse {
    /// The number.
    pub reset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = "17@0190f1f4-2b3c-7d4e-8f50-112233445566";

    #[test]
    fn a_claim_is_a_string_or_an_object() {
        let text =
            format!(r#"{{"claims": ["{CLAIM}", {{"claim": "{CLAIM}", "retry_in": "5s"}}]}}"#);
        let fail: FailClaims = serde_json::from_str(&text).unwrap();
        assert_eq!(fail.claims[0].claim, fail.claims[1].claim);
        assert!(fail.claims[1].retry_in.is_some());
        for bad in [
            r#"{"claims": ["17"]}"#.to_owned(),
            r#"{"claims": [17]}"#.to_owned(),
            format!(r#"{{"claims": [{{"claim": "{CLAIM}", "retry": 1}}]}}"#),
            format!(r#"{{"claims": [{{"claim": "{CLAIM}", "lease": "1s"}}]}}"#),
            format!(r#"{{"claims": ["{CLAIM}"], "more": 1}}"#),
        ] {
            assert!(serde_json::from_str::<FailClaims>(&bad).is_err(), "{bad}");
        }
        let text = format!(r#"{{"claims": ["{CLAIM}", {{"claim": "{CLAIM}"}}]}}"#);
        let complete: CompleteClaims = serde_json::from_str(&text).unwrap();
        assert_eq!(complete.claims[0], complete.claims[1]);
        let text = format!(r#"{{"claims": [{{"claim": "{CLAIM}", "error": "no"}}]}}"#);
        assert!(serde_json::from_str::<CompleteClaims>(&text).is_err());
    }
}
