//! Locks and leases.

mod acquire;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::acquire::*;
pub use crate::busy::Language;
use crate::duration::{WireDuration, as_ms};
use crate::ids::{LeaseId, Token};
#[cfg(feature = "schema")]
use crate::openapi_types::{LeaseDuration, LeaseName};
use crate::page::DEFAULT_PAGE;
use crate::request::request;

/// How long a waiter registration is valid after it was last renewed.
pub const WAITER_ALIVE: Duration = Duration::from_secs(10);

/// The caller, as a person sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attribution {
    /// The person, as the application knows them.
    pub user: Option<String>,
    /// The application.
    pub service: Option<String>,
    /// What it is doing.
    pub description: Option<String>,
    /// The machine it runs on.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<i32>,
}

/// A lease that the store has granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Grant {
    /// The resource.
    pub resource: String,
    /// The fencing token: a number that grows with each grant of the resource.
    pub token: Token,
    /// The owner.
    pub owner: String,
    /// Number of holds of the owner.
    pub holds: u32,
    /// When the lease began, on the store's clock.
    pub acquired_at: Timestamp,
    /// When the lease ends unless it is renewed, on the store's clock.
    pub expires_at: Timestamp,
    /// The time until then, in milliseconds.
    #[serde(rename = "remaining_ms", with = "as_ms")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub remaining: Duration,
    /// Whether the owner held the lock already.
    pub reentered: bool,
}

impl Grant {
    /// Returns the id by which the lease is renewed and released.
    pub fn id(&self) -> LeaseId {
        LeaseId {
            resource: self.resource.clone(),
            token: self.token,
        }
    }
}

/// The holder of a busy lock, as far as other callers may know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Holder {
    /// The person.
    pub user: Option<String>,
    /// The application.
    pub service: Option<String>,
    /// What it is doing.
    pub description: Option<String>,
    /// When the lease began.
    pub acquired_at: Timestamp,
    /// When the lease ends unless it is renewed.
    pub expires_at: Timestamp,
}

/// The outcome of an acquire when another owner holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The resource.
    pub resource: String,
    /// The holder; `None` if the lock is just changing its holder, or waiters come first.
    pub holder: Option<Holder>,
    /// The remaining time of the holder's lease, unless it is renewed.
    pub remaining: Duration,
}

/// Outcome of `Store::lock_acquire`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockOutcome {
    /// The owner holds the lock now.
    Acquired(Grant),
    /// Another owner holds the lock; nothing was written.
    Busy(Busy),
}

/// Outcome of `Store::lock_acquire_all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAllOutcome {
    /// The owner holds all the locks now; in order of their names.
    Acquired(Vec<Grant>),
    /// Another owner holds one of the locks. The call acquired none.
    Busy(Busy),
}

/// Parameters of `Store::lock_renew`.
#[derive(Debug, Clone)]
pub struct LockRenew {
    /// The resource.
    pub resource: String,
    /// The lease's token.
    pub token: Token,
    /// The new TTL, counted from now.
    pub ttl: Duration,
}

/// Outcome of `Store::lock_renew`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease ends later now, or at its `max_hold`.
    Renewed {
        /// When the lease ends, on the store's clock.
        expires_at: Timestamp,
        /// The time until then.
        remaining: Duration,
    },
    /// The token does not hold the lock any more.
    Lost,
}

/// Parameters of `Store::lock_release`.
#[derive(Debug, Clone)]
pub struct LockRelease {
    /// The resource.
    pub resource: String,
    /// The lease's token.
    pub token: Token,
    /// The hold to release, by the request id that acquired it. Default: the newest.
    pub hold: Option<Uuid>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Outcome of `Store::lock_release`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// One hold was released.
    Released {
        /// Number of holds that the owner still has.
        holds: u32,
    },
    /// The token does not hold the lock any more.
    Lost,
}

/// Parameters of `Store::lock_break`.
#[derive(Debug, Clone)]
pub struct LockBreak {
    /// The resource.
    pub resource: String,
    /// The token of the lease to break.
    pub token: Token,
    /// The reason, for the history.
    pub reason: String,
    /// The operator, for the history.
    pub user: Option<String>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Outcome of `Store::lock_break`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakOutcome {
    /// The lock is free now.
    Broken,
    /// That token does not hold the lock.
    NotHeld,
}

/// Parameters of `Store::lock_wait`.
#[derive(Debug, Clone)]
pub struct LockWait {
    /// The resource.
    pub resource: String,
    /// The waiting owner.
    pub owner: String,
    /// Whether later waiters come after this one.
    pub order: WaitOrder,
    /// The caller, as a person sees it.
    pub attribution: Attribution,
}

/// Outcome of `Store::lock_wait`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The waiter is registered: a release notifies it.
    Registered,
    /// The lock was just changing, and its holder may not know of the waiter: register again soon.
    TryAgain,
}

/// Parameters of `Store::lock_leave`.
#[derive(Debug, Clone)]
pub struct LockLeave {
    /// The resource.
    pub resource: String,
    /// The owner that waited.
    pub owner: String,
}

/// A holder of a resource, for operators: with owner and token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LockHolder {
    /// The resource.
    pub resource: String,
    /// `exclusive` or `shared`.
    pub mode: String,
    /// The owner.
    pub owner: String,
    /// The fencing token.
    pub token: Token,
    /// Number of holds of the owner.
    pub holds: u32,
    /// The person, application, work, machine and process.
    #[serde(flatten)]
    pub attribution: Attribution,
    /// When the lease began.
    pub acquired_at: Timestamp,
    /// When the lease ends unless it is renewed.
    pub expires_at: Timestamp,
    /// The time until then, in milliseconds.
    #[serde(rename = "remaining_ms", with = "as_ms")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub remaining: Duration,
    /// Number of waiters.
    pub waiters: u64,
}

/// The holders and the number of waiters of a resource: outcome of `Store::lock_status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LockStatus {
    /// The resource.
    pub resource: String,
    /// The holders: none, one, or several that share the lock.
    pub holders: Vec<LockHolder>,
    /// Number of waiters.
    pub waiters: u64,
}

/// Parameters of `Store::lock_list`. Default: the first page of all locks.
#[derive(Debug, Clone)]
pub struct LockList {
    /// The prefix of the names.
    pub prefix: String,
    /// The last name of the previous page; empty for the first page.
    pub after: String,
    /// The size of the page.
    pub limit: u32,
}

impl Default for LockList {
    fn default() -> Self {
        LockList {
            prefix: String::new(),
            after: String::new(),
            limit: DEFAULT_PAGE,
        }
    }
}

/// A lease: the response of `POST /v1/locks`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Lease {
    /// The id by which it is renewed and released.
    #[cfg_attr(feature = "schema", schema(value_type = LeaseName))]
    pub id: LeaseId,
    /// The lease.
    #[serde(flatten)]
    pub grant: Grant,
}

impl From<&Grant> for Lease {
    fn from(grant: &Grant) -> Self {
        Lease {
            id: grant.id(),
            grant: grant.clone(),
        }
    }
}

/// Several leases: the response of `POST /v1/lock-sets`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Leases {
    /// In order of their names.
    pub leases: Vec<Lease>,
}

request! {
    /// Renews a lease: `PUT /v1/leases/{id}`
    #[derive(Default)]
    pub struct Renew {} optional {
        /// The new TTL, counted from now. A lease is never shortened.
        ttl: WireDuration as LeaseDuration,
    }
}

/// A renewed lease: the response of `PUT /v1/leases/{id}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RenewedLease {
    /// The id of the lease.
    #[cfg_attr(feature = "schema", schema(value_type = LeaseName))]
    pub id: LeaseId,
    /// The resource.
    pub resource: String,
    /// The fencing token.
    pub token: Token,
    /// The owner; the server leaves out this field and the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Number of holds of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<u32>,
    /// When the lease began, on the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquired_at: Option<Timestamp>,
    /// When the lease ends unless it is renewed, on the store's clock.
    pub expires_at: Timestamp,
    /// The time until then, in milliseconds.
    #[serde(rename = "remaining_ms", with = "as_ms")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub remaining: Duration,
}

/// One page of held locks: `GET /v1/locks`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Locks {
    /// In order of their names.
    pub locks: Vec<LockHolder>,
    /// Cursor of the next page (`after`); absent if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The holders of a resource: `GET /v1/locks/{resource}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Status {
    /// The resource, its holders and its waiters.
    #[serde(flatten)]
    pub status: LockStatus,
    /// Whether the lock is held.
    pub locked: bool,
    /// The holder: the first, if several share the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<LockHolder>,
}

impl From<LockStatus> for Status {
    fn from(status: LockStatus) -> Self {
        Status {
            locked: !status.holders.is_empty(),
            holder: status.holders.first().cloned(),
            status,
        }
    }
}
