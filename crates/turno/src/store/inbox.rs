//! The inbox's part of the seam: what a store must be able to do with items of work.
//!
//! An item is *pending* until a worker claims it, *scheduled* while its time has not come, *processing*
//! while a claim on it lives, and then gone (*completed*) or set aside (*failed*). The only way to change
//! a claimed item is to present its [`ClaimId`]; one that is no longer right is answered as stale, and
//! applied to nothing.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Kind, Result};
use crate::settings::Gather;

/// The verbs of the inbox.
#[async_trait]
pub trait InboxStore {
    /// Stores items, all or none. A key that is known in its queue is answered as a duplicate.
    async fn inbox_push(&self, ask: &InboxPush) -> Result<Vec<PushedItem>>;

    /// Claims items that are due, the most urgent and then the oldest first, in the order in which they should
    /// be begun.
    async fn inbox_claim(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>>;

    /// [`InboxStore::inbox_claim`] for a store that can wait for a first item by itself: none, if none came in time.
    /// `None` if it cannot, as most: the library waits then.
    async fn inbox_claim_waiting(
        &self,
        ask: &InboxClaim,
        wait: Duration,
    ) -> Result<Option<Vec<ClaimedItem>>> {
        let _ = (ask, wait);
        Ok(None)
    }

    /// Ends items that are done.
    async fn inbox_complete(&self, ask: &InboxComplete) -> Result<Settled>;

    /// Ends what is done and claims what is next, in one step.
    async fn inbox_turn(&self, ask: &InboxTurn) -> Result<(Settled, Vec<ClaimedItem>)>;

    /// Records failed attempts: each item is tried again later, or set aside as failed.
    async fn inbox_fail(&self, ask: &InboxFail) -> Result<Settled>;

    /// Gives items back that were not begun: pending at once, and no attempt counted.
    async fn inbox_give_back(&self, ask: &InboxGiveBack) -> Result<Settled>;

    /// Lengthens claims; never shortens one. Items that were claimed together live together.
    async fn inbox_extend(&self, ask: &InboxExtend) -> Result<Settled>;

    /// Revives failed items, with all their attempts before them, and records it. Answers how many.
    async fn inbox_requeue(&self, ask: &InboxFailedItems) -> Result<u64>;

    /// Deletes failed items with their errors, and records it. Their keys stay known as those of completed items do.
    /// Returns how many.
    async fn inbox_discard(&self, ask: &InboxFailedItems) -> Result<u64>;

    /// Takes items away from workers that have held them for too long, and records it. Answers how many.
    async fn inbox_reset(&self, ask: &InboxReset) -> Result<u64>;

    /// How many items are in which state, queue by queue in order of their names; none of a queue to which nothing was
    /// ever pushed.
    async fn inbox_stats(&self, ask: &InboxStats) -> Result<Vec<QueueStats>>;

    /// One page of a queue's items in one state.
    async fn inbox_list(&self, ask: &InboxList) -> Result<Vec<ItemView>>;

    /// In which queues claims are, for whoever has to know before it settles them; `None` for one that is over. A store
    /// that is somebody else's need not tell: as provided, it refuses.
    async fn inbox_queues(&self, claims: &[ClaimId]) -> Result<Vec<Option<String>>> {
        let _ = claims;
        Err(Error::refused(
            "this store does not tell in which queues claims are: ask the store behind it",
        ))
    }

    /// Says that a worker has nothing to do: for [`IDLE_ALIVE`], a push to the queue wakes it. Answers when there
    /// may be more without one: the next item's time, or the end of another's claim.
    async fn inbox_wait(&self, queue: &str) -> Result<Option<Duration>>;

    /// Says that a worker has nothing to do, and learns for how long it may sleep. As provided, it asks
    /// [`InboxStore::inbox_wait`], and no push is certain to wake.
    async fn inbox_idle(&self, ask: &InboxIdle) -> Result<InboxIdleness> {
        Ok(InboxIdleness {
            due: self.inbox_wait(&ask.queue).await?,
            sure: None,
        })
    }

    /// Wakes the idle workers of a queue that has more than its busy ones can take, wherever they are, and forgets those
    /// that are gone. As provided, it does nothing: every push wakes.
    async fn inbox_rouse(&self, queue: &str) -> Result<()> {
        let _ = queue;
        Ok(())
    }
}

/// A worker that has nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxIdle {
    /// The queue that it works on.
    pub queue: String,
    /// How long it may sleep, and wants to be notified; zero if it cannot be.
    pub listens: Duration,
    /// How long ago its last claim began.
    pub looked: Duration,
}

/// Answer of [`InboxStore::inbox_idle`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxIdleness {
    /// When there may be more without a push: the next item's time, or the end of another's claim.
    pub due: Option<Duration>,
    /// Since when every push is certain to wake. A worker that has claimed since it first got this answer sleeps safely;
    /// `None` if a push that is under way may not wake.
    pub sure: Option<String>,
}

/// How long an idle worker is woken after it last said so.
pub const IDLE_ALIVE: Duration = Duration::from_secs(10);

/// How many priorities there are: 0 is the most urgent, 3 the least.
pub const PRIORITIES: u8 = 4;

/// The priority of an item that names none.
pub const DEFAULT_PRIORITY: u8 = 1;

/// The attempts of an item that names none.
pub const DEFAULT_ATTEMPTS: u16 = 5;

/// The number of an item: unique in its store, and growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct ItemId(pub i64);

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A claim on one item, `ITEM@TOKEN` in text: what every change to it has to present.
///
/// ```
/// use turno::inbox::ClaimId;
///
/// let claim: ClaimId = "17@0190f1f4-2b3c-7d4e-8f50-112233445566".parse()?;
/// assert_eq!(claim.item.0, 17);
/// assert!("17".parse::<ClaimId>().unwrap_err().is_invalid());
/// # Ok::<(), turno::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    /// The item.
    pub item: ItemId,
    /// The claim's own token; items claimed together share it.
    pub token: Uuid,
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.item, self.token)
    }
}

impl FromStr for ClaimId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.split_once('@')
            .and_then(|(item, token)| {
                Some(ClaimId {
                    item: ItemId(item.parse().ok()?),
                    token: Uuid::try_parse(token).ok()?,
                })
            })
            .ok_or_else(|| {
                Error::invalid(
                    "claim",
                    "claim is not one: it looks like 17@0190f1f4-2b3c-7d4e-8f50-112233445566, as a claim was answered",
                )
            })
    }
}

impl Serialize for ClaimId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ClaimId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// An item to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    /// The work, as JSON text.
    pub payload: String,
    /// Pushed twice, it is stored once: for as long as the item or the record of its completion is there.
    pub key: Option<String>,
    /// What stands in the key's place when there is none, and need not be unique: an event's id.
    pub label: Option<String>,
    /// 0, the most urgent, to 3.
    pub priority: u8,
    /// Not before this; at once, if it is past or absent.
    pub due: Option<Due>,
    /// Items of one group run one at a time, in the order of their pushes.
    pub group: Option<String>,
    /// After this many attempts it is set aside as failed. 0 is no limit, for events of the outbox only.
    pub max_attempts: u16,
}

/// No limit of attempts: only for the events of the outbox, about which relays decide.
pub(crate) const UNLIMITED_ATTEMPTS: u16 = 0;
/// Attempts whose outcome is unknown are counted up to this number, and no further. In SQL: `turno.inbox_doubt`.
pub const MAX_DOUBTS: u32 = 1_000_000;

/// When an item may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// So long after the push, on the store's clock.
    After(Duration),
    /// At this time, on the store's clock.
    At(Timestamp),
}

/// Parameters of [`InboxStore::inbox_push`].
#[derive(Debug, Clone)]
pub struct InboxPush {
    /// Where the items wait.
    pub queue: String,
    /// The items, in order.
    pub items: Vec<NewItem>,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// What became of one pushed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedItem {
    /// Its number; that of the one already there, if it is a duplicate.
    pub id: ItemId,
    /// Whether an item with this key was there already.
    pub duplicate: bool,
}

/// Parameters of [`InboxStore::inbox_claim`].
#[derive(Debug, Clone)]
pub struct InboxClaim {
    /// From where.
    pub queue: String,
    /// Who claims, as people see it.
    pub worker: String,
    /// At the most this many; none at all, if it is 0.
    pub limit: u32,
    /// For how long, unless extended.
    pub lease: Duration,
    /// The identity of this request, and the token of the claims: asked twice, it answers what it claimed the
    /// first time, as far as that is still held.
    pub request: Uuid,
    /// Together with others of the same worker it may be claimed as one with them, under a token that is nobody's own; so
    /// whoever may have to repeat it claims alone.
    pub gather: Gather,
}

/// An item in a worker's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedItem {
    /// What every change to the item has to present.
    pub claim: ClaimId,
    /// Counted from one, those of vanished workers included.
    pub attempt: u32,
    /// The attempt after which it is set aside.
    pub max_attempts: u32,
    /// The work, as JSON text.
    pub payload: String,
    /// Its unique key.
    pub key: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// 0, the most urgent, to 3.
    pub priority: u8,
    /// When it was pushed, on the store's clock.
    pub pushed_at: Timestamp,
    /// When the claim ends unless extended, on the store's clock.
    pub expires_at: Timestamp,
    /// How many of the attempts before ended because the worker vanished.
    pub abandoned: u32,
}

/// Parameters of [`InboxStore::inbox_complete`].
#[derive(Debug, Clone)]
pub struct InboxComplete {
    /// What is done.
    pub claims: Vec<ClaimId>,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// Parameters of [`InboxStore::inbox_turn`].
#[derive(Debug, Clone)]
pub struct InboxTurn {
    /// What is done.
    pub complete: InboxComplete,
    /// What is wanted next.
    pub claim: InboxClaim,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What was tried.
    pub claim: ClaimId,
    /// What went wrong.
    pub error: String,
    /// How long to wait before the next attempt; exponential with jitter, if not said.
    pub retry_in: Option<Duration>,
    /// Whether another attempt makes sense.
    pub again: Again,
}

/// Whether a failed item is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// As long as attempts are left.
    #[default]
    Retry,
    /// Never: it is set aside at once.
    Never,
}

/// Parameters of [`InboxStore::inbox_fail`].
#[derive(Debug, Clone)]
pub struct InboxFail {
    /// The attempts.
    pub failures: Vec<Failure>,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// Parameters of [`InboxStore::inbox_give_back`].
#[derive(Debug, Clone)]
pub struct InboxGiveBack {
    /// What was not begun.
    pub claims: Vec<ClaimId>,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// Parameters of [`InboxStore::inbox_extend`].
#[derive(Debug, Clone)]
pub struct InboxExtend {
    /// What is still being worked on.
    pub claims: Vec<ClaimId>,
    /// For how long from now.
    pub lease: Duration,
}

/// Which of several claims a change was applied to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// How many it was applied to.
    pub done: u64,
    /// The claims that were no longer right, in their order; nothing was applied to these.
    pub stale: Vec<ClaimId>,
}

/// Parameters of [`InboxStore::inbox_requeue`] and [`InboxStore::inbox_discard`].
#[derive(Debug, Clone)]
pub struct InboxFailedItems {
    /// Where the items failed.
    pub queue: String,
    /// Which; all, if not said.
    pub ids: Option<Vec<ItemId>>,
    /// At the most this many, the oldest failures first.
    pub limit: u32,
    /// Who does it, for the history.
    pub user: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Parameters of [`InboxStore::inbox_reset`].
#[derive(Debug, Clone)]
pub struct InboxReset {
    /// Where the items are.
    pub queue: String,
    /// Only those that were claimed this long ago.
    pub older_than: Duration,
    /// At the most about this many; what was claimed together is reset together.
    pub limit: u32,
    /// Who does it, for the history.
    pub user: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Parameters of [`InboxStore::inbox_stats`].
#[derive(Debug, Clone, Default)]
pub struct InboxStats {
    /// One queue, or all.
    pub queue: Option<String>,
    /// The beginning of the names, when no queue is named.
    pub prefix: String,
}

/// How many items of a queue are in which state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// All that were ever pushed, and not discarded.
    pub total: u64,
    /// Waiting for a worker.
    pub pending: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// In workers' hands.
    pub processing: u64,
    /// Done, since the queue began.
    pub completed: u64,
    /// Set aside, to be looked at.
    pub failed: u64,
    /// How long the oldest pending item has been due, in milliseconds; `None` if none is pending.
    #[serde(rename = "oldest_pending_ms", with = "super::as_optional_ms", default)]
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
    /// Waiting for its time.
    Scheduled,
    /// In a worker's hands.
    Processing,
    /// Done.
    Completed,
    /// Set aside.
    Failed,
}

impl ItemState {
    /// All of them.
    pub const ALL: [ItemState; 5] = [
        ItemState::Pending,
        ItemState::Scheduled,
        ItemState::Processing,
        ItemState::Completed,
        ItemState::Failed,
    ];

    /// The word that stores and faces use.
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

/// Parameters of [`InboxStore::inbox_list`].
#[derive(Debug, Clone)]
pub struct InboxList {
    /// The queue.
    pub queue: String,
    /// Only items in this state.
    pub state: ItemState,
    /// The last item of the page before.
    pub after: Option<ItemId>,
    /// The size of the page.
    pub limit: u32,
}

/// An item as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemView {
    /// Its number.
    pub id: ItemId,
    /// Its state.
    pub state: ItemState,
    /// The work, as JSON text; a completed item's is not kept.
    pub payload: Option<String>,
    /// Its unique key.
    pub key: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// 0, the most urgent, to 3.
    pub priority: Option<u8>,
    /// The attempts that ended, in failure or because the worker vanished.
    pub attempts: u32,
    /// How many of them because the worker vanished.
    pub abandoned: u32,
    /// Who works on it, or did last.
    pub worker: Option<String>,
    /// When it was pushed.
    pub pushed_at: Option<Timestamp>,
    /// When its state began or, for a scheduled one, ends: its time, its claim, its completion, its failure.
    pub at: Option<Timestamp>,
    /// Its last errors, oldest first.
    pub errors: Vec<AttemptError>,
}

/// Why an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AttemptError {
    /// Which attempt.
    pub attempt: u32,
    /// When it ended.
    pub at: Timestamp,
    /// `failed`: its handler said so. `abandoned`: its worker vanished.
    pub kind: String,
    /// What went wrong.
    pub error: String,
    /// Who tried.
    pub worker: Option<String>,
}

/// How many errors an item keeps.
pub const ERRORS_KEPT: usize = 10;

/// The errors as PostgreSQL and SQLite keep them.
pub(crate) fn attempt_errors(json: &str) -> Result<Vec<AttemptError>> {
    serde_json::from_str(json).map_err(|error| {
        Error::caused(
            Kind::Broken,
            "the errors of an item are not as they were written",
            error,
        )
    })
}
