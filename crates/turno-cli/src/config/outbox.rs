//! `[outbox]`: events and relay.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use turno::outbox::{Mode, OnDead};
use turno::sink::Unroutable;
use turno::store::MAX_BATCH;

use super::value::{Bytes, Count, Lease, Name, Time};

const MAX_ATTEMPTS: u32 = turno::MAX_ATTEMPTS as u32;

/// Settings of events and relay.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Outbox {
    max_payload: Option<Bytes>,
    /// Destination of the events. The URL may have a password.
    pub(crate) sink: Option<String>,
    /// A file with the sink's URL.
    pub(crate) sink_file: Option<PathBuf>,
    pub(crate) mode: Option<Mode>,
    batch: Option<Count<MAX_BATCH>>,
    max_attempts: Option<Count<MAX_ATTEMPTS>>,
    lease: Option<Lease>,
    poll: Option<Time>,
    name: Option<Name>,
    pub(crate) lock_id: Option<i64>,
    pub(crate) on_dead: Option<OnDead>,
    /// Overrides `on_dead` for one type of event.
    pub(crate) on_dead_of: BTreeMap<String, OnDead>,
    pub(crate) archive: Option<bool>,
    /// A table of the application, from which the relay publishes.
    table: Option<Name>,
    exchange: Option<Name>,
    pub(crate) unroutable: Option<Unroutable>,
    /// Overrides `unroutable` for one type of event.
    pub(crate) unroutable_of: BTreeMap<String, Unroutable>,
    subject_prefix: Option<Name>,
    source: Option<Name>,
    pub(crate) secret: Option<String>,
    /// A file with the secret.
    pub(crate) secret_file: Option<PathBuf>,
    pub(crate) allow_private: Option<bool>,
    timeout: Option<Time>,
}

impl Outbox {
    pub(crate) fn max_payload(&self) -> Option<usize> {
        self.max_payload.map(|bytes| bytes.0)
    }

    pub(crate) fn batch(&self) -> Option<u32> {
        self.batch.map(|count| count.0)
    }

    pub(crate) fn max_attempts(&self) -> Option<u32> {
        self.max_attempts.map(|count| count.0)
    }

    pub(crate) fn lease(&self) -> Option<Duration> {
        self.lease.map(|lease| lease.0)
    }

    pub(crate) fn poll(&self) -> Option<Duration> {
        self.poll.map(|time| time.0)
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout.map(|time| time.0)
    }

    pub(crate) fn name(&self) -> Option<String> {
        text(&self.name)
    }

    pub(crate) fn table(&self) -> Option<String> {
        text(&self.table)
    }

    pub(crate) fn exchange(&self) -> Option<String> {
        text(&self.exchange)
    }

    pub(crate) fn subject_prefix(&self) -> Option<String> {
        text(&self.subject_prefix)
    }

    pub(crate) fn source(&self) -> Option<String> {
        text(&self.source)
    }
}

fn text(name: &Option<Name>) -> Option<String> {
    name.as_ref().map(|name| name.0.clone())
}
