//! Statistics of queues, and operator actions on items that failed or hang.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration::WireDuration;
use crate::ids::ItemId;
#[cfg(feature = "schema")]
use crate::openapi_types::{Name, Text};
use crate::request::request;

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

/// Statistics of queues: `GET /v1/inbox`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Queues {
    /// In order of their names.
    pub queues: Vec<QueueStats>,
}

request! {
    /// Failed items to requeue, `POST /v1/inbox/{queue}/requeue`, or to discard, `POST /v1/inbox/{queue}/discard`
    #[derive(Default)]
    pub struct FailedItems {} optional {
        /// The items. Default: all that have failed.
        #[cfg_attr(feature = "schema", schema(max_items = 10_000))]
        ids: Vec<ItemId>,
        /// The operator, for the history. Default: the name of the access token.
        user: String as Name,
        /// The reason, for the history.
        reason: String as Text,
    }
}

/// Number of requeued items or events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Requeued {
    /// The number.
    pub requeued: u64,
}

request! {
    /// Ends the claims of workers that hang: `POST /v1/inbox/{queue}/reset`
    #[derive(Default)]
    pub struct Reset {} optional {
        /// Only items that were claimed at least this long ago. Default: 15 minutes.
        older_than: WireDuration,
        /// The operator, for the history. Default: the name of the access token.
        user: String as Name,
        /// The reason, for the history.
        reason: String as Text,
    }
}

/// Number of items that were reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResetResponse {
    /// The number.
    pub reset: u64,
}
