//! Store methods of adopted tables.

use std::time::Duration;

use async_trait::async_trait;
pub use turno_api::adopt::*;
use uuid::Uuid;

use super::{
    AdoptOutboxTable, AdoptedOutboxTable, EventState, OutboxClaim, OutboxDiscard, OutboxRequeue,
    OutboxRow, OutboxRowsSettle, OutboxSettled, OutboxTablePage, OutboxTableStats,
};
use crate::error::{Error, Result};

/// Store methods of adopted tables. Those of outbox tables are rejected by default.
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

    /// Adds the columns and indexes of a relay to a table of events; changes nothing if none is missing.
    async fn outbox_table_adopt(&self, _: &AdoptOutboxTable) -> Result<AdoptedOutboxTable> {
        Err(no_outbox_tables())
    }

    /// Returns the SQL that [`AdoptStore::outbox_table_adopt`] would execute. Changes nothing.
    async fn outbox_table_print(&self, _: &AdoptOutboxTable) -> Result<String> {
        Err(no_outbox_tables())
    }

    /// Removes what was added to an outbox table, and nothing else. Returns what was removed.
    async fn outbox_table_undo(&self, _table: &str) -> Result<AdoptedOutboxTable> {
        Err(no_outbox_tables())
    }

    /// Returns an outbox table; `None` if the table is not adopted as one.
    async fn outbox_table_find(&self, _table: &str) -> Result<Option<AdoptedOutboxTable>> {
        Err(no_outbox_tables())
    }

    /// Claims due rows. A repeated call returns the rows of the first one.
    async fn outbox_table_claim(
        &self,
        _: &AdoptedOutboxTable,
        _: &OutboxClaim,
    ) -> Result<Vec<OutboxRow>> {
        Err(no_outbox_tables())
    }

    /// Ends a claim with the outcome of each of its rows. Rows without an outcome are given back.
    async fn outbox_table_settle(
        &self,
        _: &AdoptedOutboxTable,
        _: &OutboxRowsSettle,
    ) -> Result<OutboxSettled> {
        Err(no_outbox_tables())
    }

    /// Extends a claim. Returns whether it is still held.
    async fn outbox_table_extend(
        &self,
        _: &AdoptedOutboxTable,
        _token: Uuid,
        _lease: Duration,
    ) -> Result<bool> {
        Err(no_outbox_tables())
    }

    /// Ends all claims, for a relay that has just become the leader. Returns how many rows were in flight.
    async fn outbox_table_recover(&self, _: &AdoptedOutboxTable) -> Result<u64> {
        Err(no_outbox_tables())
    }

    /// Returns whether a row is pending or claimed. Reads no processed row.
    async fn outbox_table_has_pending(&self, _: &AdoptedOutboxTable) -> Result<bool> {
        Err(no_outbox_tables())
    }

    /// Returns the number of rows per state. Reads no processed row.
    async fn outbox_table_stats(&self, _: &AdoptedOutboxTable) -> Result<OutboxTableStats> {
        Err(no_outbox_tables())
    }

    /// Returns one page of the rows in one state: at most `limit`, after the place of a row, which is JSON (`next` of another page).
    async fn outbox_table_list(
        &self,
        _: &AdoptedOutboxTable,
        _state: EventState,
        _after: Option<&str>,
        _limit: u32,
    ) -> Result<OutboxTablePage> {
        Err(no_outbox_tables())
    }

    /// Makes dead rows pending again, the given ones or all, and writes the history. Returns how many.
    async fn outbox_table_requeue(&self, _: &AdoptedOutboxTable, _: &OutboxRequeue) -> Result<u64> {
        Err(no_outbox_tables())
    }

    /// Marks rows that are not claimed as processed, so that they are never published, and writes the history. Returns how many.
    async fn outbox_table_discard(&self, _: &AdoptedOutboxTable, _: &OutboxDiscard) -> Result<u64> {
        Err(no_outbox_tables())
    }
}

fn no_outbox_tables() -> Error {
    Error::refused("an outbox table works on a store, and not through a server: use --store URL")
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
