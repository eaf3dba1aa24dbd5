//! For operators: sweep, diagnosis and the state of the server.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::duration::WireDuration;
use crate::request::request;

/// Parameters of `Store::sweep`.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Resources unused for this long are deleted; their tokens still grow.
    pub purge_after: Duration,
    /// History older than this is deleted.
    pub keep_history: Duration,
    /// The record of items completed longer ago than this is deleted, and their keys with it.
    pub keep_completed: Duration,
    /// Failed items older than this are deleted, as `InboxStore::inbox_discard` does. Default: `None`, they are kept until
    /// an operator decides. Dead events of the outbox are always kept.
    pub keep_failed: Option<Duration>,
    /// Archived events that were dispatched longer ago than this are deleted.
    pub keep_archive: Duration,
    /// Marks of processed events older than this are deleted. Must be longer than any broker redelivers a message.
    pub keep_seen: Duration,
    /// Maximum number of rows of each kind per call.
    pub batch: u32,
}

impl Default for Sweep {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Sweep {
            purge_after: DAY,
            keep_history: 90 * DAY,
            keep_completed: 7 * DAY,
            keep_failed: None,
            keep_archive: 365 * DAY,
            keep_seen: 30 * DAY,
            batch: 1000,
        }
    }
}

/// Outcome of `Store::sweep`: numbers of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Swept {
    /// Expired leases that were closed.
    pub expired: u64,
    /// Unused resources.
    pub purged: u64,
    /// Waiter registrations that had expired.
    pub waiters: u64,
    /// Old history.
    pub history: u64,
    /// Records of completed items, of dispatched events and of old request ids.
    pub completed: u64,
    /// Archived events.
    pub archived: u64,
    /// Marks of processed events.
    pub seen: u64,
    /// Answers of once keys that had expired.
    pub once: u64,
    /// Failed items, if [`Sweep::keep_failed`] is set.
    #[serde(default)]
    pub failed: u64,
}

impl Swept {
    /// Whether there was nothing left to do.
    pub fn is_empty(&self) -> bool {
        *self == Swept::default()
    }

    /// Whether rows of a kind may be left, because a call with this [`Sweep::batch`] found as many as it deletes.
    pub fn is_full(&self, batch: u32) -> bool {
        let counts = [
            self.expired,
            self.purged,
            self.waiters,
            self.history,
            self.completed,
            self.archived,
            self.seen,
            self.once,
            self.failed,
        ];
        counts.into_iter().any(|count| count >= u64::from(batch))
    }
}

impl std::ops::AddAssign for Swept {
    fn add_assign(&mut self, more: Self) {
        self.expired += more.expired;
        self.purged += more.purged;
        self.waiters += more.waiters;
        self.history += more.history;
        self.completed += more.completed;
        self.archived += more.archived;
        self.seen += more.seen;
        self.once += more.once;
        self.failed += more.failed;
    }
}

/// The severity of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Correct.
    Ok,
    /// Works, but with weaker guarantees.
    Warning,
    /// Does not work.
    Problem,
}

/// The result of one check of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Finding {
    /// The check: `schema`, `clock`, `durability`, …
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub check: Cow<'static, str>,
    /// The severity.
    pub severity: Severity,
    /// The result, and what to do next.
    pub detail: String,
}

impl Finding {
    /// A check that passed.
    pub fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Finding {
            check: check.into(),
            severity: Severity::Ok,
            detail: detail.into(),
        }
    }

    /// A check with a warning.
    pub fn warning(check: &'static str, detail: impl Into<String>) -> Self {
        Finding {
            check: check.into(),
            severity: Severity::Warning,
            detail: detail.into(),
        }
    }

    /// A check that failed.
    pub fn problem(check: &'static str, detail: impl Into<String>) -> Self {
        Finding {
            check: check.into(),
            severity: Severity::Problem,
            detail: detail.into(),
        }
    }
}

request! {
    /// Closes expired leases and deletes old rows: `POST /v1/sweep`
    #[derive(Default)]
    pub struct SweepRequest {} optional {
        /// Resources unused for this long are deleted; their tokens still grow.
        purge_after: WireDuration,
        /// History older than this is deleted.
        keep_history: WireDuration,
        /// The record of items completed longer ago than this is deleted.
        keep_completed: WireDuration,
        /// Items that failed longer ago than this are deleted. Default: none.
        keep_failed: WireDuration,
        /// Archived events that were dispatched longer ago than this are deleted.
        keep_archive: WireDuration,
        /// Marks of processed events older than this are deleted.
        keep_seen: WireDuration,
    }
}

/// The checks of the store: `GET /v1/doctor`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DoctorReport {
    /// The store, without its password.
    pub store: String,
    /// One finding per check.
    pub findings: Vec<Finding>,
}

/// The caller: `GET /v1/whoami`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Whoami {
    /// The access token's name; `anonymous` if the server requires none.
    pub name: String,
    /// The role of the access token.
    pub role: Role,
    /// The prefix of the names that the access token permits; empty: all.
    pub prefix: String,
}

/// The state of the server: `GET /healthz`, `GET /readyz`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`, or `unavailable` if the store is.
    pub status: String,
    /// The reason, if it is not ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The version of the server.
    pub version: String,
}
