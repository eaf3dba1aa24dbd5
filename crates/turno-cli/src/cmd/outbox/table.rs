//! Events of Turno's outbox, or of a table of the application.

use clap::Args;
use turno::inbox::ItemId;
use turno::outbox::{EventState, EventView, OutboxStats, OutboxTable};
use turno::{Result, Turno};

/// Which events a command is about.
#[derive(Debug, Args)]
pub(super) struct TableArgs {
    /// Table of the application, adopted with `turno adopt --as outbox` [default: Turno's outbox]
    #[arg(long, value_name = "TABLE")]
    pub(super) table: Option<String>,
}

/// Where events are.
#[derive(Debug)]
pub(super) enum EventSource {
    Outbox(Turno),
    Table(OutboxTable),
}

impl EventSource {
    pub(super) fn new(turno: &Turno, table: Option<String>) -> Self {
        match table {
            Some(table) => EventSource::Table(turno.outbox_table(table)),
            None => EventSource::Outbox(turno.clone()),
        }
    }

    pub(super) async fn stats(&self) -> Result<OutboxStats> {
        match self {
            EventSource::Outbox(turno) => turno.outbox().stats().await,
            EventSource::Table(table) => table.stats().await,
        }
    }

    pub(super) async fn list(
        &self,
        state: EventState,
        after: Option<ItemId>,
        limit: u32,
    ) -> Result<Vec<EventView>> {
        match self {
            EventSource::Outbox(turno) => turno.outbox().list(state, after, limit).await,
            EventSource::Table(table) => table.list(state, after, limit).await,
        }
    }
}
