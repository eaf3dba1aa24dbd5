//! Bodies of locks and leases.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use turno::Token;
use turno::lock::{Grant, HistoryEntry, LeaseId, LockHolder, LockStatus};
use uuid::Uuid;

use super::Span;
#[cfg(feature = "schema")]
use super::rules::{LeaseName, LeaseSpan, Name, Text, WaitSpan};

/// How many may hold a resource at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One owner.
    #[default]
    Exclusive,
    /// Any number of owners, none of them exclusive; or as many as `permits` says.
    Shared,
}

/// In which order waiters are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Whoever is quickest.
    #[default]
    Any,
    /// Nobody who comes later is served first.
    Fifo,
}

/// Takes a lock: `POST /v1/locks`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// What to lock: a path-like name.
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub resource: String,
    /// Who asks, as a machine sees it: the same owner enters again. A new UUID, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub owner: Option<String>,
    /// How long the lease lives unless it is renewed; 30 seconds, if neither this nor the server's file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseSpan>))]
    pub ttl: Option<Span>,
    /// Wait this long for it: the answer comes when it is ours, or when the time is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<WaitSpan>))]
    pub wait: Option<Span>,
    /// In which order waiters are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Alone, or with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Shared by at most so many owners; all who use the resource name the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
    pub permits: Option<u32>,
    /// Nobody may take it again before this has passed, even if it is released sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_hold: Option<Span>,
    /// However often it is renewed, it ends after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold: Option<Span>,
    /// The person who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// The application that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub service: Option<String>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub description: Option<String>,
    /// The machine that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub host: Option<String>,
    /// Its process there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The identity of this request: sent twice, it changes nothing more, and is answered the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// Takes several locks, all or none: `POST /v1/lock-sets`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireAll {
    /// What to lock.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Name>, min_items = 1, max_items = 100))]
    pub resources: Vec<String>,
    /// Who asks, as a machine sees it. A new UUID, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub owner: Option<String>,
    /// How long the leases live unless they are renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseSpan>))]
    pub ttl: Option<Span>,
    /// Wait this long for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<WaitSpan>))]
    pub wait: Option<Span>,
    /// Nobody may take one again before this has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_hold: Option<Span>,
    /// However often they are renewed, they end after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold: Option<Span>,
    /// The person who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// The application that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub service: Option<String>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub description: Option<String>,
    /// The machine that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub host: Option<String>,
    /// Its process there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The identity of this request: sent twice, it changes nothing more, and is answered the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// A lease: the answer of `POST /v1/locks` and `PUT /v1/leases/{id}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Lease {
    /// Its name: what it is renewed and released by.
    #[cfg_attr(feature = "schema", schema(value_type = LeaseName))]
    pub id: LeaseId,
    /// What is locked.
    pub resource: String,
    /// The fencing token: only grows for a resource, for ever.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub token: Token,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How often the owner holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<u32>,
    /// Since when, on the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquired_at: Option<Timestamp>,
    /// Until when unless it is renewed, on the store's clock.
    pub expires_at: Timestamp,
    /// From now until then, in milliseconds.
    pub remaining_ms: u64,
}

impl From<&Grant> for Lease {
    fn from(grant: &Grant) -> Self {
        Lease {
            id: LeaseId {
                resource: grant.resource.clone(),
                token: grant.token,
            },
            resource: grant.resource.clone(),
            token: grant.token,
            owner: Some(grant.owner.clone()),
            holds: Some(grant.holds),
            acquired_at: Some(grant.acquired_at),
            expires_at: grant.expires_at,
            remaining_ms: super::ms(grant.remaining),
        }
    }
}

/// Several leases: the answer of `POST /v1/lock-sets`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Leases {
    /// In order of their names.
    pub leases: Vec<Lease>,
}

/// Lengthens a lease: `PUT /v1/leases/{id}`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// For how long from now; never shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseSpan>))]
    pub ttl: Option<Span>,
}

/// One page of held locks: `GET /v1/locks`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Locks {
    /// In order of their names.
    pub locks: Vec<LockHolder>,
    /// Where the next page begins (`after`); none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Who holds a resource: `GET /v1/locks/{resource}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Status {
    /// What was asked about.
    pub resource: String,
    /// Whether anybody holds it.
    pub locked: bool,
    /// Who holds it: the first, if several share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<LockHolder>,
    /// All who hold it.
    pub holders: Vec<LockHolder>,
    /// How many wait for it.
    pub waiters: u64,
}

impl From<LockStatus> for Status {
    fn from(status: LockStatus) -> Self {
        Status {
            resource: status.resource,
            locked: !status.holders.is_empty(),
            holder: status.holders.first().cloned(),
            holders: status.holders,
            waiters: status.waiters,
        }
    }
}

impl From<Status> for LockStatus {
    fn from(status: Status) -> Self {
        LockStatus {
            resource: status.resource,
            holders: status.holders,
            waiters: status.waiters,
        }
    }
}

/// One page of the audit trail, of locks and of what people did by hand, newest first: `GET /v1/history`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct History {
    /// Newest first; the first page begins with what is held now.
    pub history: Vec<HistoryEntry>,
    /// Where the next page begins (`after`); none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
