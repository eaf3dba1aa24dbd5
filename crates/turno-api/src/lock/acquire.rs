//! Parameters and requests of acquires.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Attribution;
use crate::duration::WireDuration;
use crate::error::{Error, Result};
#[cfg(feature = "schema")]
use crate::openapi_types::{LeaseDuration, Name, Text, WaitDuration};
use crate::request::request;

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

/// Defines a request whose last fields are the options that an acquire of one lock and of several locks have in common.
///
/// They are not a struct that serde flattens: an error in a flattened field does not name the field.
macro_rules! acquire_request {
    ($(#[$meta:meta])* pub struct $name:ident { $($required:tt)* } optional { $($optional:tt)* }) => {
        request! {
            $(#[$meta])*
            #[derive(Default)]
            pub struct $name { $($required)* } optional {
                $($optional)*
                /// The name that the holder gives itself. The same owner can enter again. Default: a new UUID.
                owner: String as Name,
                /// How long a lease is valid unless it is renewed. Default: that of the configuration, else 30 seconds.
                ttl: WireDuration as LeaseDuration,
                /// Wait this long. The call returns when it has acquired, or when this time has passed.
                wait: WireDuration as WaitDuration,
                /// The minimum time until the lock can be granted again, even if it is released sooner.
                min_hold: WireDuration,
                /// The maximum time that the lease can last by renewals.
                max_hold: WireDuration,
                /// The person.
                user: String as Name,
                /// The application.
                service: String as Name,
                /// What it is doing.
                description: String as Text,
                /// The machine it runs on.
                host: String as Name,
                /// Its process there.
                pid: i32,
                /// The request id: a repeated request changes nothing and has the same response.
                request: Uuid,
            }
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

acquire_request! {
    /// Acquires a lock: `POST /v1/locks`
    pub struct Acquire {
        /// The resource to lock: a path-like name.
        resource: String as Name,
    } optional {
        /// The order in which waiters get the lock. Default: any.
        order: WaitOrder,
        /// The mode of the lock. Default: exclusive.
        mode: Mode,
        /// Shared by at most this many owners. All callers of the resource must give the same number.
        #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
        permits: u32,
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

acquire_request! {
    /// Acquires several locks, all or none: `POST /v1/lock-sets`
    pub struct AcquireAll {
        /// The resources to lock.
        #[cfg_attr(feature = "schema", schema(value_type = Vec<Name>, min_items = 1, max_items = 100))]
        resources: Vec<String>,
    } optional {}
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
