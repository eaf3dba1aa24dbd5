//! `[serve]`: settings of the server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::value::{Bytes, Count, Time, WireDuration};
use crate::logging::LogFormat;

/// Maximum of the connection limit, and of the rate limit per second.
pub(crate) const MOST: u32 = 1_000_000;
/// Maximum number of connections to the store.
pub(crate) const MOST_CONNECTIONS: u32 = 1000;

/// Settings of the server.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Serve {
    #[serde(deserialize_with = "crate::listen::deserialize")]
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) insecure: Option<bool>,
    pub(crate) hosts: Vec<String>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    connections: Option<Count<MOST_CONNECTIONS>>,
    max_connections: Option<Count<MOST>>,
    max_body: Option<Bytes>,
    max_wait: Option<Time>,
    rate: Option<Count<MOST>>,
    drain: Option<WireDuration>,
    pub(crate) log_format: Option<LogFormat>,
}

impl Serve {
    pub(crate) fn connections(&self) -> Option<u32> {
        self.connections.map(|count| count.0)
    }

    pub(crate) fn max_connections(&self) -> Option<u32> {
        self.max_connections.map(|count| count.0)
    }

    pub(crate) fn max_body(&self) -> Option<usize> {
        self.max_body.map(|bytes| bytes.0)
    }

    pub(crate) fn max_wait(&self) -> Option<Duration> {
        self.max_wait.map(|time| time.0)
    }

    pub(crate) fn rate(&self) -> Option<u32> {
        self.rate.map(|count| count.0)
    }

    pub(crate) fn drain(&self) -> Option<Duration> {
        self.drain.map(|pause| pause.0)
    }
}
