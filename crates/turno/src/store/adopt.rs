//! Adopt's part of the seam: the claim protocol on a table that the user already has.
//!
//! A row of an adopted table is *pending*, *processing* while it is locked, *completed* once it was released, or
//! *failed* when its last attempt ended with an error. Rows are named by their id as text, whatever its type is.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Token;
use crate::error::{Error, Result};

/// The verbs of adopted tables.
#[async_trait]
pub trait AdoptStore {
    /// Adds what is missing to a table; changes nothing if nothing is.
    async fn adopt(&self, ask: &AdoptTable) -> Result<Adoption>;

    /// What [`AdoptStore::adopt`] would do, as SQL; nothing is done.
    async fn adopt_print(&self, ask: &AdoptTable) -> Result<String>;

    /// The functions of the user's own that [`AdoptStore::adopt`] would replace, next to those that it would create, as text
    /// for people; empty if none has a name that is needed. Nothing is done.
    async fn adopt_difference(&self, ask: &AdoptTable) -> Result<String>;

    /// Takes away what was added to a table, and nothing else. Answers what that was.
    async fn adopt_undo(&self, table: &str) -> Result<Adoption>;

    /// Locks one row.
    async fn adopted_acquire(&self, ask: &AdoptedAcquire) -> Result<AdoptedOutcome>;

    /// Unlocks a row that was processed, or whose processing failed.
    async fn adopted_release(&self, ask: &AdoptedRelease) -> Result<AdoptedSettled>;

    /// Locks rows that are free, those tried least often first.
    async fn adopted_next(&self, ask: &AdoptedNext) -> Result<Vec<AdoptedRow>>;

    /// Unlocks what has been locked for too long, as failed. Answers how many.
    async fn adopted_cleanup(&self, table: &str, timeout: Duration) -> Result<u64>;

    /// Makes rows pending again. Answers how many.
    async fn adopted_reset(&self, table: &str, which: AdoptedReset) -> Result<u64>;

    /// How many rows are in which state; of one user, or all.
    async fn adopted_stats(&self, table: &str, user: Option<&str>) -> Result<AdoptedStats>;

    /// Turns a row's flag, in the shape [`Shape::Processed`]. Answers whether it did.
    async fn adopted_mark(&self, table: &str, id: &str) -> Result<bool>;

    /// Turns a row's flag back. Answers whether it did.
    async fn adopted_unmark(&self, table: &str, id: &str) -> Result<bool>;
}

/// How often a row is handed out, unless said otherwise.
pub const ADOPTED_ATTEMPTS: u32 = 5;

/// What an adopted table's rows can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Locks with a timeout, attempts, errors and tokens.
    #[default]
    Processing,
    /// One flag, `processed`.
    Processed,
}

impl Shape {
    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Processing => "processing",
            Shape::Processed => "processed",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Shape {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "processing" => Ok(Shape::Processing),
            "processed" => Ok(Shape::Processed),
            _ => Err(Error::invalid(
                "shape",
                "shape must be processing (locks, attempts and errors) or processed (one flag)",
            )),
        }
    }
}

/// Parameters of [`AdoptStore::adopt`].
#[derive(Debug, Clone)]
pub struct AdoptTable {
    /// The table, as its owner calls it.
    pub table: String,
    /// The column that tells one row from another.
    pub id: String,
    /// The column that rows of one user are chosen by; `user_id`, if not said and there is one.
    pub user: Option<String>,
    /// What its rows can tell.
    pub shape: Shape,
    /// The end of the functions' names, where a store makes any.
    pub suffix: Option<String>,
    /// How often a row is handed out by [`AdoptStore::adopted_next`].
    pub max_attempts: u32,
    /// Whether functions of the user's own that have the names of adopt's functions are replaced. If not, they are an error.
    pub replace: bool,
}

/// An adopted table, and what was added to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The table, with its schema where there are any.
    pub table: String,
    /// The column that tells one row from another.
    pub id: String,
    /// The column that rows of one user are chosen by.
    pub user: Option<String>,
    /// What its rows can tell.
    pub shape: Shape,
    /// The columns that were added, now or before.
    pub columns: Vec<String>,
    /// The indexes that were added.
    pub indexes: Vec<String>,
    /// The functions that were added, with the types of their arguments.
    pub functions: Vec<String>,
    /// The functions of the user's own that were replaced, now or before. Undoing restores them.
    #[serde(default)]
    pub replaced: Vec<String>,
}

/// Parameters of [`AdoptStore::adopted_acquire`].
#[derive(Debug, Clone)]
pub struct AdoptedAcquire {
    /// The table.
    pub table: String,
    /// The row.
    pub id: String,
    /// A lock older than this is taken over.
    pub timeout: Duration,
}

/// Answer of [`AdoptStore::adopted_acquire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptedOutcome {
    /// It is locked now.
    Acquired {
        /// What releases it.
        token: Token,
    },
    /// Somebody else has it, it is processed already, or there is no such row.
    Busy,
}

/// How processing ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdoptedEnd {
    /// It is done, and never handed out again.
    Processed,
    /// It failed; this is why.
    Failed(String),
}

/// Parameters of [`AdoptStore::adopted_release`].
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

/// Answer of [`AdoptStore::adopted_release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptedSettled {
    /// It is unlocked, and its end recorded.
    Released,
    /// The token is no longer that of the lock; nothing was changed.
    Stale,
}

/// Parameters of [`AdoptStore::adopted_next`].
#[derive(Debug, Clone)]
pub struct AdoptedNext {
    /// The table.
    pub table: String,
    /// Rows of this user only.
    pub user: Option<String>,
    /// At the most this many.
    pub limit: u32,
    /// A lock older than this is taken over.
    pub timeout: Duration,
}

/// A row that is locked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedRow {
    /// Its id, as text.
    pub id: String,
    /// What releases it.
    pub token: Token,
    /// Counted from one.
    pub attempt: u32,
}

/// Parameters of [`AdoptStore::adopted_reset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptedReset {
    /// What has been locked for longer than this, keeping its attempts and errors.
    Stuck(Duration),
    /// Everything that is not processed, as if it had never been tried: for development and tests.
    All,
}

/// Answer of [`AdoptStore::adopted_stats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedStats {
    /// All rows.
    pub total: u64,
    /// Waiting to be picked up for the first time.
    pub pending: u64,
    /// Locked, also for too long, until somebody takes over or cleans up.
    pub processing: u64,
    /// Processed.
    pub completed: u64,
    /// Not locked, and the last attempt ended with an error.
    pub failed: u64,
}

/// The answer to a verb on a table that is not adopted.
pub(crate) fn not_adopted(table: &str) -> Error {
    Error::invalid(
        "table",
        format!("table {table} is not adopted: run `turno adopt {table} --id COLUMN`"),
    )
}

/// The answer to a verb that a shape does not have.
pub(crate) fn wrong_shape(table: &str, needed: Shape) -> Error {
    Error::invalid(
        "shape",
        format!("shape of table {table} is another: adopt it with shape {needed} for this"),
    )
}
