//! The history: how leases ended, and what operators did.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::Token;
use crate::lock::Attribution;
use crate::names::named;
use crate::page::DEFAULT_PAGE;

named! {
    /// The component that an entry of the history belongs to.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum Part as "part" {
        /// A lock; `resource` is its resource.
        #[default]
        Lock = "lock",
        /// The inbox; `resource` is the queue.
        Inbox = "inbox",
        /// The outbox; `resource` is empty.
        Outbox = "outbox",
        /// A once key; `resource` is the key.
        Once = "once",
        /// A setting of the database; `resource` is its name.
        Setting = "setting",
    }
}

/// Parameters of `Store::history`. Default: the first page of all entries.
#[derive(Debug, Clone)]
pub struct History {
    /// One component. Default: all.
    pub part: Option<Part>,
    /// One resource, queue or key. Default: all.
    pub resource: Option<String>,
    /// The prefix of the names, if no resource is given. The outbox has no name: any prefix excludes its entries.
    pub prefix: String,
    /// The last id of the previous page.
    pub before: Option<i64>,
    /// The size of the page.
    pub limit: u32,
}

impl Default for History {
    fn default() -> Self {
        History {
            part: None,
            resource: None,
            prefix: String::new(),
            before: None,
            limit: DEFAULT_PAGE,
        }
    }
}

/// The reason of the entry for failed items that a sweep deletes: one entry for each queue and batch.
pub const SWEPT_FAILED: &str = "swept: failed longer ago than keep_failed";

named! {
    /// The event of an entry: how a lease ended, a late call, or an operator action.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum HistoryEvent as "event" {
        /// The lease is held now.
        Acquired = "acquired",
        /// The lease was renewed after its expiry, before a takeover.
        RenewedLate = "renewed_late",
        /// The lease was released.
        Released = "released",
        /// The lease expired, and a sweep closed it.
        Expired = "expired",
        /// The lease expired, and another owner took the lock over.
        TakenOver = "taken_over",
        /// An operator broke the lock.
        Broken = "broken",
        /// A release or a renewal had a stale token; `reason` has which.
        Late = "late",
        /// An operator requeued failed items or dead events.
        Requeued = "requeued",
        /// An operator ended the claims of workers that hung.
        Reset = "reset",
        /// An operator discarded failed items or dead events, or a sweep deleted items that had failed longer ago than
        /// `keep_failed` (its reason is [`SWEPT_FAILED`]).
        Discarded = "discarded",
        /// An operator deleted a once key.
        Forgotten = "forgotten",
        /// An operator reported that the work of an unknown key was done.
        Resolved = "resolved",
        /// The owner changed a setting of the database; `reason` has both values.
        Changed = "changed",
    }
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// The id, which grows with time; `None` for a lease that is held now.
    pub id: Option<i64>,
    /// The time of the event, on the store's clock.
    pub at: Timestamp,
    /// The component.
    #[serde(default)]
    pub part: Part,
    /// The event.
    pub event: HistoryEvent,
    /// The resource, the queue or the once key; empty for the outbox.
    pub resource: String,
    /// Number of items, events or keys; `None` for locks.
    #[serde(default)]
    pub count: Option<u64>,
    /// The fencing token of a lock.
    pub token: Option<Token>,
    /// The mode of a lock: `exclusive` or `shared`.
    pub mode: Option<String>,
    /// The owner of the lease.
    pub owner: Option<String>,
    /// The person, application, work, machine and process.
    #[serde(flatten)]
    pub attribution: Attribution,
    /// When the lease began.
    pub acquired_at: Option<Timestamp>,
    /// When the lease was to end.
    pub expires_at: Option<Timestamp>,
    /// The operator.
    pub actor: Option<String>,
    /// The reason of the operator, or the late call.
    pub reason: Option<String>,
}

/// One page of the history, newest first: `GET /v1/history`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryPage {
    /// Newest first; the first page begins with the leases that are held now.
    pub history: Vec<HistoryEntry>,
    /// Cursor of the next page (`after`); absent if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
