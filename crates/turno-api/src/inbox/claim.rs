//! Claims: parameters, outcomes and bodies of claim and of idle workers.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::duration::WireDuration;
use crate::ids::{ClaimId, ItemId};
use crate::json::JsonText;
#[cfg(feature = "schema")]
use crate::openapi_types::{ClaimName, Json, LeaseDuration, Name, WaitDuration};
use crate::request::request;

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

request! {
    /// Claims items: `POST /v1/inbox/{queue}/claim`
    pub struct Claim {
        /// The name of the worker, for people.
        worker: String as Name,
    } optional {
        /// Maximum number of items. Default: 1.
        #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
        limit: u32,
        /// How long the claim is valid unless it is extended. Default: that of the server's configuration, else 30 seconds.
        lease: WireDuration as LeaseDuration,
        /// Wait this long for a first item.
        wait: WireDuration as WaitDuration,
        /// The request id: a repeated request returns the items of the first one that are still claimed.
        request: Uuid,
    }
}

/// Claimed items.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Claimed {
    /// In the order in which they should be processed; empty if none is due.
    pub items: Vec<ClaimedItem>,
}
