//! Options of a server, with their defaults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turno::outbox::Relay;
use turno::schedule::Schedule;
use turno::store::Sweep;

use crate::auth::gatekeeper::Admission;
use crate::http::tls::TlsFiles;
use crate::http::tracing::SetSpanParent;

/// Default address on which a server listens.
pub const ADDRESS: &str = "127.0.0.1:7117";

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Display name of the store, such as its URL without a password. Default: the kind of the store.
    pub store: Option<String>,
    /// Which callers are admitted. Default: [`Admission::TokenOrLocal`].
    pub admission: Admission,
    /// Host names by which clients may address a server that admits all callers, besides IP addresses and names without a dot.
    /// Other names are rejected, because a hostile site can make its own name resolve to this server (DNS rebinding).
    pub hosts: Vec<String>,
    /// Lease of an inbox claim for requests without one. Default: 30 seconds.
    pub inbox_lease: Duration,
    /// Maximum wait of one request. A client that wants to wait longer sends another request. Default: 60 seconds.
    pub max_wait: Duration,
    /// Maximum size of a request body, in bytes. Default: 16 MiB.
    pub max_body: usize,
    /// Timeout for the head of a request. Default: 30 seconds.
    pub head_timeout: Duration,
    /// Timeout for the body of a request. Default: 30 seconds.
    pub body_timeout: Duration,
    /// How long a client may read nothing of a response. Default: 30 seconds.
    pub write_timeout: Duration,
    /// Maximum number of connected clients. Further clients wait. Default: 10 000.
    pub max_connections: usize,
    /// Maximum number of requests in flight. Further requests are rejected with a `Retry-After`. Default: 10 000.
    pub max_in_flight: usize,
    /// Maximum number of requests per second and caller. Default: no limit.
    pub rate: Option<u32>,
    /// How long requests in flight may take to end at shutdown. Default: 30 seconds.
    pub drain: Duration,
    /// Certificate and key. Default: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Interval and retention of the sweep. Default: no sweep.
    pub sweep: Option<(Duration, Sweep)>,
    /// Schedules that this server runs.
    pub schedules: Vec<Schedule>,
    /// Relay that publishes the events of the outbox. Default: none in this process.
    pub relay: Option<MakeRelay>,
    /// Table of the application, adopted as an outbox, whose backlog `/metrics` shows. Default: none.
    pub outbox_table: Option<String>,
    /// Sets the parent of a request's span. Default: no parent.
    pub set_span_parent: Option<SetSpanParent>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            store: None,
            admission: Admission::default(),
            hosts: Vec::new(),
            inbox_lease: Duration::from_secs(30),
            max_wait: Duration::from_secs(60),
            max_body: 16 * 1024 * 1024,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_connections: 10_000,
            max_in_flight: 10_000,
            rate: None,
            drain: Duration::from_secs(30),
            tls: None,
            sweep: None,
            schedules: Vec::new(),
            relay: None,
            outbox_table: None,
            set_span_parent: None,
        }
    }
}

/// Factory of the server's relay. Called at the start, and again if a relay fails.
#[derive(Clone)]
pub struct MakeRelay(Arc<dyn Fn() -> Relay + Send + Sync>);

impl MakeRelay {
    /// Creates a factory. `make` is called for each relay, so its sink must be usable by all of them.
    pub fn new(make: impl Fn() -> Relay + Send + Sync + 'static) -> Self {
        MakeRelay(Arc::new(make))
    }

    /// Creates a relay.
    pub(crate) fn make(&self) -> Relay {
        (self.0)()
    }
}

impl fmt::Debug for MakeRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeRelay")
    }
}
