//! Adopted tables: the claim protocol on a table that the user already has.
//!
//! A row of an adopted table is *pending*, *processing* while it is locked, *completed* after it was released, or *failed* when its
//! last attempt ended with an error. Rows are identified by their id as text, whatever its type is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Token;
use crate::names::named;

/// The default of [`AdoptTable::max_attempts`].
pub const ADOPTED_ATTEMPTS: u32 = 5;

named! {
    /// The columns that an adopted table gets.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Shape as "shape" {
        /// Locks with a timeout, attempts, errors and tokens.
        #[default]
        Processing = "processing",
        /// One flag, `processed`.
        Processed = "processed",
    }
}

/// Parameters of `AdoptStore::adopt`.
#[derive(Debug, Clone)]
pub struct AdoptTable {
    /// The name of the table.
    pub table: String,
    /// The column that identifies a row.
    pub id: String,
    /// The column by which rows of one user are selected. Default: `user_id`, if it exists.
    pub user: Option<String>,
    /// The columns that the table gets.
    pub shape: Shape,
    /// The suffix of the functions' names, on a store with functions.
    pub suffix: Option<String>,
    /// Maximum number of attempts: `AdoptStore::adopted_next` skips rows with more.
    pub max_attempts: u32,
    /// Whether functions of the user that have the names of adopt's functions are replaced. If not, they are an error.
    pub replace: bool,
}

/// An adopted table, and what was added to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The table, with its schema if the store has schemas.
    pub table: String,
    /// The column that identifies a row.
    pub id: String,
    /// The column by which rows of one user are selected.
    pub user: Option<String>,
    /// The columns that the table gets.
    pub shape: Shape,
    /// The columns that were added, now or before.
    pub columns: Vec<String>,
    /// The indexes that were added.
    pub indexes: Vec<String>,
    /// The functions that were added, with the types of their arguments.
    pub functions: Vec<String>,
    /// The functions of the user that were replaced, now or before. Undoing restores them.
    #[serde(default)]
    pub replaced: Vec<String>,
}

/// Parameters of `AdoptStore::adopted_acquire`.
#[derive(Debug, Clone)]
pub struct AdoptedAcquire {
    /// The table.
    pub table: String,
    /// The row.
    pub id: String,
    /// A lock older than this can be taken over.
    pub timeout: Duration,
}

/// Outcome of `AdoptStore::adopted_acquire`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptedOutcome {
    /// The row is locked now.
    Acquired {
        /// The token that releases it.
        token: Token,
    },
    /// Another caller has locked the row, it is processed already, or it does not exist.
    Busy,
}

/// How processing ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdoptedEnd {
    /// Successfully: the row is not processed again.
    Processed,
    /// With this error.
    Failed(String),
}

/// Parameters of `AdoptStore::adopted_release`.
#[derive(Debug, Clone)]
pub struct AdoptedRelease {
    /// The table.
    pub table: String,
    /// The row.
    pub id: String,
    /// The lock's token.
    pub token: Token,
    /// How processing ended.
    pub end: AdoptedEnd,
}

/// Outcome of `AdoptStore::adopted_release`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptedSettled {
    /// The row is unlocked, and its end is stored.
    Released,
    /// The token does not hold the lock any more; nothing was changed.
    Stale,
}

/// Parameters of `AdoptStore::adopted_next`.
#[derive(Debug, Clone)]
pub struct AdoptedNext {
    /// The table.
    pub table: String,
    /// Rows of this user only.
    pub user: Option<String>,
    /// Maximum number of rows.
    pub limit: u32,
    /// A lock older than this can be taken over.
    pub timeout: Duration,
}

/// A locked row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedRow {
    /// Its id, as text.
    pub id: String,
    /// The token that releases it.
    pub token: Token,
    /// The attempt, counted from one.
    pub attempt: u32,
}

/// Parameters of `AdoptStore::adopted_reset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptedReset {
    /// Rows that have been locked for longer than this. Attempts and errors are kept.
    Stuck(Duration),
    /// All rows that are not processed, without their attempts and errors: for development and tests.
    All,
}

/// Outcome of `AdoptStore::adopted_stats`: numbers of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedStats {
    /// All rows.
    pub total: u64,
    /// Not attempted yet.
    pub pending: u64,
    /// Locked, also for too long, until a takeover or a cleanup.
    pub processing: u64,
    /// Processed.
    pub completed: u64,
    /// Not locked, and the last attempt ended with an error.
    pub failed: u64,
}
