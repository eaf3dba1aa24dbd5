//! Events of `GET /v1/stream`: one type per kind of event.
//!
//! The first event is a `snapshot`. A client that applies the changes that follow has, at any time, the state that a new
//! snapshot would contain. The remaining time of a lease and the age of the oldest item change with the clock: they are not sent
//! again until something else changes them.

use serde::{Deserialize, Serialize};

use crate::history::HistoryEntry;
use crate::ids::Token;
use crate::inbox::QueueStats;
use crate::lock::LockHolder;
use crate::once::OnceView;
use crate::outbox::OutboxStats;

/// `snapshot`: the state at the beginning of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// The locks that are held.
    pub locks: LockList,
    /// The queues.
    pub queues: KnownQueues,
    /// The outbox; only for callers that may see all names and gave no prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbox: Option<OutboxStats>,
    /// The once keys that are in flight or unknown.
    pub once: OpenKeys,
}

/// The locks that are held, in order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LockList {
    /// The first 500, or fewer if their texts are long.
    pub locks: Vec<LockHolder>,
    /// Number of held locks; counted up to 1000.
    pub held: u64,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// The queues, in order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KnownQueues {
    /// The first 500.
    pub queues: Vec<QueueStats>,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// Once keys that are in flight or unknown, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenKeys {
    /// The first 100 of each.
    pub keys: Vec<OnceView>,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// `locks`: changes of the listed locks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LocksChanged {
    /// Held now.
    pub added: Vec<LockHolder>,
    /// Still held, and renewed, entered again, or with another number of waiters.
    pub changed: Vec<LockHolder>,
    /// Not held any more.
    pub gone: Vec<LockRemoved>,
    /// Number of held locks; counted up to 1000.
    pub held: u64,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// A lock that is not held any more, or not by this owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LockRemoved {
    /// The resource.
    pub resource: String,
    /// The owner.
    pub owner: String,
    /// The fencing token.
    pub token: Token,
}

/// `queues`: the queues whose counts changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueuesChanged {
    /// New queues, and queues with new counts.
    pub changed: Vec<QueueStats>,
    /// Queues that do not exist any more.
    pub gone: Vec<String>,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// `once`: the keys that began, ended or became unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OnceChanged {
    /// In flight or unknown now.
    pub changed: Vec<OnceView>,
    /// Keys that are neither any more.
    pub gone: Vec<String>,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// `history`: new entries of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryNews {
    /// The oldest first.
    pub history: Vec<HistoryEntry>,
    /// Whether there are more than are listed: `GET /v1/history` has them.
    pub more: bool,
}

/// `store`: whether the store is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StoreState {
    /// False: the state may be out of date, until it is true again.
    pub up: bool,
}

/// `reconnect`: the last event of the stream. The client connects again for more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reconnect {
    /// `slow`: the client did not read in time and missed events; `time`: the stream has reached its maximum duration;
    /// `access`: the access token is not valid any more; `shutting_down`: the server shuts down.
    pub reason: String,
}
