//! Events of Turno's outbox, or of a table of the application.

use clap::Args;
use turno::outbox::OutboxTable;
use turno::{Result, Turno};

/// Which events a command is about.
#[derive(Debug, Args)]
pub(super) struct TableArgs {
    /// Table of the application, adopted with `turno adopt --as outbox` [default: Turno's outbox]
    #[arg(long, value_name = "TABLE")]
    pub(super) table: Option<String>,
}

/// Numbers of the events that are not dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) pending: u64,
    pub(super) scheduled: u64,
    pub(super) processing: u64,
    pub(super) dead: u64,
    pub(super) blocked: u64,
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

    /// Returns whether an event is pending or in flight.
    pub(super) async fn has_pending(&self) -> Result<bool> {
        match self {
            EventSource::Outbox(turno) => {
                let stats = turno.outbox().stats().await?;
                Ok(stats.pending + stats.processing > 0)
            }
            EventSource::Table(table) => table.has_pending().await,
        }
    }

    /// Returns the numbers of the events that are not dispatched.
    pub(super) async fn backlog(&self) -> Result<Backlog> {
        match self {
            EventSource::Outbox(turno) => {
                let stats = turno.outbox().stats().await?;
                Ok(Backlog {
                    pending: stats.pending,
                    scheduled: stats.scheduled,
                    processing: stats.processing,
                    dead: stats.dead,
                    blocked: stats.blocked,
                })
            }
            EventSource::Table(table) => {
                let stats = table.stats().await?;
                Ok(Backlog {
                    pending: stats.pending,
                    scheduled: stats.scheduled,
                    processing: stats.processing,
                    dead: stats.dead,
                    blocked: stats.blocked,
                })
            }
        }
    }
}
