//! Locks and leases.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use crate::busy::Language;
use crate::duration::{WireDuration, as_ms, ms};
use crate::error::{Error, Result};
use crate::ids::{LeaseId, Token};
#[cfg(feature = "schema")]
use crate::openapi_types::{LeaseDuration, LeaseName, Name, Text, WaitDuration};
use crate::page::DEFAULT_PAGE;

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

/// The mode of a lock: how many owners may hold a resource at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockMode {
    /// One owner.
    #[default]
    Exclusive,
    /// Any number of owners, none of them exclusive.
    Shared,
    /// At most this many owners, none of them exclusive.
    Permits(u32),
}

/// The mode of a lock in a request. `permits` is a field of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One owner.
    #[default]
    Exclusive,
    /// Any number of owners, none of them exclusive. `permits` can limit their number.
    Shared,
}

/// The order in which waiters get a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitOrder {
    /// Any order: the first caller that tries after the release gets it.
    #[default]
    Any,
    /// First in, first out.
    Fifo,
}

/// Parameters of `Store::lock_acquire`.
#[derive(Debug, Clone)]
pub struct LockAcquire {
    /// The resource to lock.
    pub resource: String,
    /// The name that the holder gives itself.
    pub owner: String,
    /// How long the lease is valid unless it is renewed.
    pub ttl: Duration,
    /// The mode of the lock.
    pub mode: LockMode,
    /// The minimum time until the lock can be granted again, even if it is released sooner.
    pub min_hold: Option<Duration>,
    /// The maximum time that the lease can last by renewals.
    pub max_hold: Option<Duration>,
    /// The caller, as a person sees it.
    pub attribution: Attribution,
    /// The request id: a repeated call changes nothing and has the same outcome.
    pub request: Uuid,
}

/// Parameters of `Store::lock_acquire_all`.
#[derive(Debug, Clone)]
pub struct LockAcquireAll {
    /// The resources to lock, in any order.
    pub resources: Vec<String>,
    /// The parameters of each lock. `resource` is ignored, and the mode is exclusive.
    pub each: LockAcquire,
}

/// A lease that the store has granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The resource.
    pub resource: String,
    /// The owner.
    pub owner: String,
    /// The fencing token.
    pub token: Token,
    /// Number of holds of the owner.
    pub holds: u32,
    /// When the lease began, on the store's clock.
    pub acquired_at: Timestamp,
    /// When the lease ends unless it is renewed, on the store's clock.
    pub expires_at: Timestamp,
    /// The time until then, on the store's clock.
    pub remaining: Duration,
    /// Whether the owner held the lock already.
    pub reentered: bool,
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

/// Outcome of `Store::lock_status`.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Defines a struct whose last fields are the options that an acquire of one lock and of several locks have in common.
///
/// They are not a struct that serde flattens: an error in a flattened field does not name the field.
macro_rules! with_acquire_options {
    ($(#[$meta:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$attribute])* pub $field: $type,)*
            /// The name that the holder gives itself. The same owner can enter again. Default: a new UUID.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
            pub owner: Option<String>,
            /// How long a lease is valid unless it is renewed. Default: that of the configuration, else 30 seconds.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseDuration>))]
            pub ttl: Option<WireDuration>,
            /// Wait this long. The call returns when it has acquired, or when this time has passed.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<WaitDuration>))]
            pub wait: Option<WireDuration>,
            /// The minimum time until the lock can be granted again, even if it is released sooner.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub min_hold: Option<WireDuration>,
            /// The maximum time that the lease can last by renewals.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub max_hold: Option<WireDuration>,
            /// The person.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
            pub user: Option<String>,
            /// The application.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
            pub service: Option<String>,
            /// What it is doing.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
            pub description: Option<String>,
            /// The machine it runs on.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
            pub host: Option<String>,
            /// Its process there.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub pid: Option<i32>,
            /// The request id: a repeated request changes nothing and has the same response.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub request: Option<Uuid>,
        }

        impl $name {
            /// Returns the options that both acquires have in common.
            fn common_options(self) -> AcquireOptions {
                AcquireOptions {
                    owner: self.owner,
                    ttl: self.ttl,
                    wait: self.wait,
                    min_hold: self.min_hold,
                    max_hold: self.max_hold,
                    user: self.user,
                    service: self.service,
                    description: self.description,
                    host: self.host,
                    pid: self.pid,
                    request: self.request,
                    ..AcquireOptions::default()
                }
            }

            /// Sets the options to the parameters of a store method: one attempt, whatever retry policy the server has.
            fn with_parameters(mut self, ask: &LockAcquire) -> Self {
                let by = ask.attribution.clone();
                self.owner = Some(ask.owner.clone());
                self.ttl = Some(ask.ttl.into());
                self.wait = Some(Duration::ZERO.into());
                self.min_hold = ask.min_hold.map(Into::into);
                self.max_hold = ask.max_hold.map(Into::into);
                self.user = by.user;
                self.service = by.service;
                self.description = by.description;
                self.host = by.host;
                self.pid = by.pid;
                self.request = Some(ask.request);
                self
            }
        }
    };
}

/// Options of an acquire. Those that are absent have a default.
#[derive(Debug, Clone, Default)]
pub struct AcquireOptions {
    /// The name that the holder gives itself. The same owner can enter again. Default: a new UUID.
    pub owner: Option<String>,
    /// How long the lease is valid unless it is renewed.
    pub ttl: Option<WireDuration>,
    /// Wait this long for the lock. Default: no wait.
    pub wait: Option<WireDuration>,
    /// The order in which waiters get the lock. Default: any.
    pub order: Option<WaitOrder>,
    /// The mode of the lock. Default: exclusive.
    pub mode: Option<LockMode>,
    /// The minimum time until the lock can be granted again, even if it is released sooner.
    pub min_hold: Option<WireDuration>,
    /// The maximum time that the lease can last by renewals.
    pub max_hold: Option<WireDuration>,
    /// The person.
    pub user: Option<String>,
    /// The application.
    pub service: Option<String>,
    /// What it is doing.
    pub description: Option<String>,
    /// The machine it runs on.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<i32>,
    /// The request id: a repeated call changes nothing and has the same outcome.
    pub request: Option<Uuid>,
}

with_acquire_options! {
    /// Acquires a lock: `POST /v1/locks`
    Acquire {
        /// The resource to lock: a path-like name.
        #[cfg_attr(feature = "schema", schema(value_type = Name))]
        resource: String,
        /// The order in which waiters get the lock. Default: any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<WaitOrder>,
        /// The mode of the lock. Default: exclusive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// Shared by at most this many owners. All callers of the resource must give the same number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
        permits: Option<u32>,
    }
}

impl Acquire {
    /// Returns the resource and the options.
    ///
    /// # Errors
    /// Returns an error if `mode` and `permits` contradict each other.
    pub fn into_options(self) -> Result<(String, AcquireOptions)> {
        let mode = match (self.mode, self.permits) {
            (Some(Mode::Exclusive), Some(_)) => {
                return Err(Error::invalid(
                    "permits",
                    "permits need the mode shared, and mode is exclusive: leave one of them out",
                ));
            }
            (_, Some(permits)) => Some(LockMode::Permits(permits)),
            (Some(Mode::Shared), None) => Some(LockMode::Shared),
            (_, None) => None,
        };
        let (resource, order) = (self.resource.clone(), self.order);
        let options = AcquireOptions {
            order,
            mode,
            ..self.common_options()
        };
        Ok((resource, options))
    }
}

impl From<&LockAcquire> for Acquire {
    fn from(ask: &LockAcquire) -> Self {
        let (mode, permits) = match ask.mode {
            LockMode::Exclusive => (None, None),
            LockMode::Shared => (Some(Mode::Shared), None),
            LockMode::Permits(permits) => (Some(Mode::Shared), Some(permits)),
        };
        let body = Acquire {
            resource: ask.resource.clone(),
            mode,
            permits,
            ..Acquire::default()
        };
        body.with_parameters(ask)
    }
}

with_acquire_options! {
    /// Acquires several locks, all or none: `POST /v1/lock-sets`
    AcquireAll {
        /// The resources to lock.
        #[cfg_attr(feature = "schema", schema(value_type = Vec<Name>, min_items = 1, max_items = 100))]
        resources: Vec<String>,
    }
}

impl AcquireAll {
    /// Returns the resources and the options of each lock.
    pub fn into_options(mut self) -> (Vec<String>, AcquireOptions) {
        let resources = std::mem::take(&mut self.resources);
        (resources, self.common_options())
    }
}

impl From<&LockAcquireAll> for AcquireAll {
    fn from(ask: &LockAcquireAll) -> Self {
        let body = AcquireAll {
            resources: ask.resources.clone(),
            ..AcquireAll::default()
        };
        body.with_parameters(&ask.each)
    }
}

/// A lease: the response of `POST /v1/locks` and `PUT /v1/leases/{id}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Lease {
    /// The id by which it is renewed and released.
    #[cfg_attr(feature = "schema", schema(value_type = LeaseName))]
    pub id: LeaseId,
    /// The resource.
    pub resource: String,
    /// The fencing token: a number that grows with each grant of the resource.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub token: Token,
    /// The owner.
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
            remaining_ms: ms(grant.remaining),
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

/// Renews a lease: `PUT /v1/leases/{id}`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The new TTL, counted from now. A lease is never shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseDuration>))]
    pub ttl: Option<WireDuration>,
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
pub struct Status {
    /// The resource.
    pub resource: String,
    /// Whether the lock is held.
    pub locked: bool,
    /// The holder: the first, if several share the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<LockHolder>,
    /// All holders.
    pub holders: Vec<LockHolder>,
    /// Number of waiters.
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
