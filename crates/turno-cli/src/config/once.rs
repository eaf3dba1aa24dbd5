//! `[once]`: leases and TTL of once, and the encryption of answers.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::value::{Lease, WireDuration};

/// Settings of once.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Once {
    lease: Option<Lease>,
    ttl: Option<WireDuration>,
    /// A file and not the keys themselves, because many users can read `turno.toml`.
    pub(crate) answer_keys_file: Option<PathBuf>,
}

impl Once {
    pub(crate) fn lease(&self) -> Option<Duration> {
        self.lease.map(|lease| lease.0)
    }

    pub(crate) fn ttl(&self) -> Option<Duration> {
        self.ttl.map(|ttl| ttl.0)
    }
}
