//! Store methods of adopted tables.

use std::time::Duration;

use async_trait::async_trait;
pub use turno_api::adopt::*;

use crate::error::{Error, Result};

/// Store methods of adopted tables.
#[async_trait]
pub trait AdoptStore {
    /// Adds the missing columns, indexes and functions to a table; changes nothing if none is missing.
    async fn adopt(&self, ask: &AdoptTable) -> Result<Adoption>;

    /// Returns the SQL that [`AdoptStore::adopt`] would execute. Changes nothing.
    async fn adopt_print(&self, ask: &AdoptTable) -> Result<String>;

    /// Returns the functions of the user that [`AdoptStore::adopt`] would replace, beside those that it would create, as text
    /// for people; empty if it would replace none. Changes nothing.
    async fn adopt_difference(&self, ask: &AdoptTable) -> Result<String>;

    /// Removes what was added to a table, and nothing else. Returns what was removed.
    async fn adopt_undo(&self, table: &str) -> Result<Adoption>;

    /// Locks one row.
    async fn adopted_acquire(&self, ask: &AdoptedAcquire) -> Result<AdoptedOutcome>;

    /// Unlocks a row whose processing has ended or failed.
    async fn adopted_release(&self, ask: &AdoptedRelease) -> Result<AdoptedSettled>;

    /// Locks free rows, those with the fewest attempts first.
    async fn adopted_next(&self, ask: &AdoptedNext) -> Result<Vec<AdoptedRow>>;

    /// Unlocks rows that have been locked for too long, as failed. Returns how many.
    async fn adopted_cleanup(&self, table: &str, timeout: Duration) -> Result<u64>;

    /// Makes rows pending again. Returns how many.
    async fn adopted_reset(&self, table: &str, which: AdoptedReset) -> Result<u64>;

    /// Returns the number of rows per state, of one user or of all.
    async fn adopted_stats(&self, table: &str, user: Option<&str>) -> Result<AdoptedStats>;

    /// Sets a row's flag, in the shape [`Shape::Processed`]. Returns whether it did.
    async fn adopted_mark(&self, table: &str, id: &str) -> Result<bool>;

    /// Clears a row's flag. Returns whether it did.
    async fn adopted_unmark(&self, table: &str, id: &str) -> Result<bool>;
}

/// The error for a table that is not adopted.
pub(crate) fn not_adopted(table: &str) -> Error {
    Error::invalid(
        "table",
        format!("table {table} is not adopted: run `turno adopt {table} --id COLUMN`"),
    )
}

/// The error for an operation that the table's shape does not have.
pub(crate) fn wrong_shape(table: &str, needed: Shape) -> Error {
    Error::invalid(
        "shape",
        format!("shape of table {table} is another: adopt it with shape {needed} for this"),
    )
}
