//! Where a relay claims events: the outbox, or a table of the application's own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Kind, Result};
use crate::store::{
    AdoptedOutboxTable, ClaimId, ClaimedEvent, InboxExtend, OutboxClaim, OutboxRowsSettle,
    OutboxSettle, OutboxSettled, Store, not_outbox,
};

/// The events of a relay.
#[derive(Debug)]
pub(in crate::outbox) enum Source {
    Outbox,
    Table(TableSource),
}

/// An outbox table, and the rows that this relay has claimed.
#[derive(Debug)]
pub(in crate::outbox) struct TableSource {
    name: String,
    /// Overrides the limit of the adoption.
    pub(super) max_attempts: Option<u32>,
    found: Mutex<Option<Arc<AdoptedOutboxTable>>>,
    /// The ids of the rows of each claim. The `seq` of an event is its place in its claim.
    claims: Mutex<HashMap<Uuid, Vec<String>>>,
}

impl Source {
    pub(super) async fn claim(
        &self,
        store: &dyn Store,
        ask: &OutboxClaim,
    ) -> Result<Vec<ClaimedEvent>> {
        match self {
            Source::Outbox => store.outbox_claim(ask).await,
            Source::Table(table) => table.claim(store, ask).await,
        }
    }

    pub(super) async fn settle(
        &self,
        store: &dyn Store,
        ask: &OutboxSettle,
    ) -> Result<OutboxSettled> {
        match self {
            Source::Outbox => store.outbox_settle(ask).await,
            Source::Table(table) => table.settle(store, ask).await,
        }
    }

    /// Extends claims. Returns those that are not held any more.
    pub(super) async fn extend(
        &self,
        store: &dyn Store,
        claims: Vec<ClaimId>,
        lease: Duration,
    ) -> Result<Vec<ClaimId>> {
        match self {
            Source::Outbox => {
                let ask = InboxExtend { claims, lease };
                Ok(store.inbox_extend(&ask).await?.stale)
            }
            Source::Table(source) => {
                let table = source.table(store).await?;
                let mut stale = Vec::new();
                for claim in claims {
                    if !store
                        .outbox_table_extend(&table, claim.token, lease)
                        .await?
                    {
                        stale.push(claim);
                    }
                }
                Ok(stale)
            }
        }
    }

    pub(super) async fn recover(&self, store: &dyn Store) -> Result<u64> {
        match self {
            Source::Outbox => store.outbox_recover().await,
            Source::Table(source) => {
                let table = source.table(store).await?;
                store.outbox_table_recover(&table).await
            }
        }
    }

    /// Returns whether an event is pending or claimed.
    pub(super) async fn has_pending(&self, store: &dyn Store) -> Result<bool> {
        match self {
            Source::Outbox => {
                let stats = store.outbox_stats().await?;
                Ok(stats.pending + stats.processing > 0)
            }
            Source::Table(source) => {
                let table = source.table(store).await?;
                store.outbox_table_has_pending(&table).await
            }
        }
    }

    /// Returns the limit of the adoption, once it is known.
    pub(super) fn max_attempts(&self) -> Option<u32> {
        match self {
            Source::Outbox => None,
            Source::Table(table) => table.found().as_ref().map(|table| table.max_attempts),
        }
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self, Source::Table(_))
    }
}

impl TableSource {
    pub(in crate::outbox) fn new(name: String) -> Self {
        TableSource {
            name,
            max_attempts: None,
            found: Mutex::default(),
            claims: Mutex::default(),
        }
    }

    /// Returns the table. It is looked up once, and again after an error that another definition of the table may have caused.
    pub(super) async fn table(&self, store: &dyn Store) -> Result<Arc<AdoptedOutboxTable>> {
        let known = self.found().clone();
        if let Some(table) = known {
            return Ok(table);
        }
        let found = store.outbox_table_find(&self.name).await?;
        let mut table = found.ok_or_else(|| not_outbox(&self.name))?;
        if let Some(max_attempts) = self.max_attempts {
            table.max_attempts = max_attempts;
        }
        let table = Arc::new(table);
        *self.found() = Some(table.clone());
        Ok(table)
    }

    async fn claim(&self, store: &dyn Store, ask: &OutboxClaim) -> Result<Vec<ClaimedEvent>> {
        let table = self.table(store).await?;
        let rows = store.outbox_table_claim(&table, ask).await;
        let rows = rows.inspect_err(|error| {
            if !error.is_unavailable() {
                *self.found() = None;
            }
        })?;
        let events = rows.iter().enumerate();
        let events = events
            .map(|(place, row)| row.event(&table, place))
            .collect();
        let ids = rows.into_iter().map(|row| row.id).collect();
        self.claims().insert(ask.token, ids);
        Ok(events)
    }

    async fn settle(&self, store: &dyn Store, ask: &OutboxSettle) -> Result<OutboxSettled> {
        let table = self.table(store).await?;
        let rows = self.claims().get(&ask.token).cloned().ok_or_else(|| {
            Error::new(
                Kind::Broken,
                "a claim is settled that this relay does not have",
            )
        })?;
        let ask = OutboxRowsSettle::new(ask, &rows);
        let settled = store.outbox_table_settle(&table, &ask).await?;
        self.claims().remove(&ask.token);
        Ok(settled)
    }

    fn found(&self) -> MutexGuard<'_, Option<Arc<AdoptedOutboxTable>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Uuid, Vec<String>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
