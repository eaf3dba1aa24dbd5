//! Events of `GET /v1/stream`: one type per kind of event.
//!
//! The first event is a `snapshot`. A client that applies the changes that follow has, at any time, the state that a new
//! snapshot would contain. Times that pass on their own are not sent again: the remaining time of a lease shrinks, and the age
//! of the oldest item grows, until an event says otherwise.

use serde::{Deserialize, Serialize};
use turno::Token;
use turno::inbox::QueueStats;
use turno::lock::{HistoryEntry, LockHolder};
use turno::once::OnceView;
use turno::outbox::OutboxStats;

/// `snapshot`: how everything is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// The locks that are held.
    pub locks: HeldLocks,
    /// The queues.
    pub queues: KnownQueues,
    /// The outbox; only for those who may see all names, and have asked for no prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbox: Option<OutboxStats>,
    /// The once keys whose work has begun and not ended.
    pub once: OpenKeys,
}

/// The locks that are held, in order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HeldLocks {
    /// The first 500, or fewer if they have much to say.
    pub locks: Vec<LockHolder>,
    /// How many there are; of more than 1000, 1000 are counted.
    pub held: u64,
    /// Whether there are more than are told of.
    pub more: bool,
}

/// The queues, in order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KnownQueues {
    /// The first 500.
    pub queues: Vec<QueueStats>,
    /// Whether there are more than are told of.
    pub more: bool,
}

/// Once keys that are in flight or unknown, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenKeys {
    /// The first 100 of each.
    pub keys: Vec<OnceView>,
    /// Whether there are more than are told of.
    pub more: bool,
}

/// `locks`: what changed in the locks that are told of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LocksChanged {
    /// Held now.
    pub added: Vec<LockHolder>,
    /// Held still, and renewed, entered again, or waited for by more or fewer.
    pub changed: Vec<LockHolder>,
    /// Not held any more.
    pub gone: Vec<GoneLock>,
    /// How many there are; of more than 1000, 1000 are counted.
    pub held: u64,
    /// Whether there are more than are told of.
    pub more: bool,
}

/// A lock that is not held any more, or not by this owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GoneLock {
    /// What was locked.
    pub resource: String,
    /// By whom.
    pub owner: String,
    /// With which token.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub token: Token,
}

/// `queues`: the queues whose counts changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueuesChanged {
    /// New ones, and those with new counts.
    pub changed: Vec<QueueStats>,
    /// Those that are not there any more.
    pub gone: Vec<String>,
    /// Whether there are more than are told of.
    pub more: bool,
}

/// `once`: the keys that began, ended, or became unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OnceChanged {
    /// In flight or unknown now.
    pub changed: Vec<OnceView>,
    /// Neither any more.
    pub gone: Vec<String>,
    /// Whether there are more than are told of.
    pub more: bool,
}

/// `history`: what happened to locks, and what people did by hand, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryNews {
    /// The oldest first.
    pub history: Vec<HistoryEntry>,
    /// Whether so much happened that some of it is not told: `GET /v1/history` has it.
    pub more: bool,
}

/// `store`: whether the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StoreState {
    /// False: what was told may be old, until it is true again.
    pub up: bool,
}

/// `reconnect`: the last event; whoever wants to know more connects again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reconnect {
    /// `slow`: events were missed, because they were not read in time; `time`: the stream has lasted as long as one may;
    /// `access`: the access token is not good any more; `shutting_down`: the server ends.
    pub reason: String,
}
