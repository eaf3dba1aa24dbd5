//! `turno gate`: a reverse proxy that lets each request be answered once.
//!
//! It stands before a service in any language, and puts [`turno::once::http`] around it: a policy for each route, and
//! everything else passes as it is.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use tokio_util::sync::CancellationToken;
//! use turno::once::http::{Policy, Routes};
//! use turno_server::gate::{Gate, Options, Upstream};
//!
//! let turno = turno::Turno::connect("postgres://app@db/app").await?;
//! let routes = Routes::new().add("/pagos", Policy::new("pagos"))?;
//! let upstream: Upstream = "http://127.0.0.1:8080".parse()?;
//! let gate = Gate::new(turno, upstream, routes, Options::default());
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7118").await?;
//! let shutdown = CancellationToken::new();
//! let counts = gate.serve(listener, shutdown).await;
//! # drop(counts); Ok(()) }
//! ```
//!
//! - What goes wrong on the way to the service is told apart: if nothing of the request was sent, the next one does its
//!   work; if something was, its outcome is *unknown*.
//! - A request is sent once. The gate never repeats one that may have reached the service.
//! - Bodies of routes without a policy are streamed, both ways; upgrades (WebSocket) are tunnelled.

mod admin;
mod answering;
mod clients;
mod failure;
mod headers;
mod probe;
mod proxy;
mod sending;
mod tunnel;
mod upstream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::once::Identities;
pub use turno::once::http::Counts;
use turno::once::http::{OnceLayer, Routes};

use self::clients::Clients;
pub use self::probe::{HttpProber, ProbePath};
use self::proxy::Proxy;
pub use self::upstream::{BadUpstream, Upstream};

/// How long the head of an answer may take, unless said otherwise.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may send nothing of its body before the answer begins, unless said otherwise.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long either side of a streamed answer may be silent, unless said otherwise.
pub const STREAM_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long work in flight may take to end at shutdown, unless said otherwise.
pub const DRAIN: Duration = Duration::from_secs(30);
/// How many clients may be connected, unless said otherwise.
pub const MAX_CONNECTIONS: usize = 1024;

/// The header `Host` that the service gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostHeader {
    /// The client's own.
    #[default]
    Client,
    /// The one of the upstream's address.
    Upstream,
}

/// How a gate works.
#[derive(Debug, Clone)]
pub struct Options {
    /// How requests are told apart. All gates before one service need the same secret.
    pub identities: Identities,
    /// The header `Host` that the service gets. A service that is spoken to in HTTP/2 always gets its own.
    pub host: HostHeader,
    /// How long the head of an answer may take, and under a policy each further part. A claim is kept alive meanwhile.
    pub answer_timeout: Duration,
    /// How long a client may send nothing of its body before the answer begins; then it gets 408. Under a policy, its
    /// `body_timeout` bounds the whole body.
    pub body_timeout: Duration,
    /// Where no policy applies: how long the service may send nothing of its answer, the client nothing more of its body, and
    /// the client read nothing.
    pub stream_timeout: Duration,
    /// How long work in flight may take to end at shutdown.
    pub drain: Duration,
    /// How many clients may be connected; more wait.
    pub max_connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            identities: Identities::new(),
            host: HostHeader::Client,
            answer_timeout: ANSWER_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            stream_timeout: STREAM_TIMEOUT,
            drain: DRAIN,
            max_connections: MAX_CONNECTIONS,
        }
    }
}

/// A reverse proxy that lets each request be answered once.
pub struct Gate {
    turno: Turno,
    layer: OnceLayer,
    proxy: Arc<Proxy>,
    drain: Duration,
    max_connections: usize,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate before a service.
    pub fn new(turno: Turno, upstream: Upstream, routes: Routes, options: Options) -> Self {
        let proxy = Proxy::new(upstream, &options);
        let layer = OnceLayer::routed(turno.clone(), routes).identities(options.identities);
        Gate {
            turno,
            layer,
            proxy: Arc::new(proxy),
            drain: options.drain,
            max_connections: options.max_connections,
        }
    }

    /// How often what happened.
    pub fn counts(&self) -> Counts {
        self.layer.counts()
    }

    /// Answers `/healthz`, `/readyz` and `/metrics` on an address of their own, until `stop` is cancelled. `/readyz` answers 503
    /// while the store does not accept writes, and as soon as `closing` is cancelled.
    ///
    /// # Errors
    /// Returns an error if the listener cannot be used.
    pub async fn serve_admin(
        &self,
        listener: TcpListener,
        closing: CancellationToken,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        admin::serve(
            listener,
            self.turno.clone(),
            self.layer.clone(),
            closing,
            stop,
        )
        .await
    }

    /// Answers whoever connects, until `shutdown` is cancelled; then work in flight ends first, within a bound.
    ///
    /// Not cancel-safe: dropping it cuts off its clients, and leaves the requests that are in flight *unknown*.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> Counts {
        let mut clients =
            Clients::new(self.proxy.clone(), self.layer.clone(), self.max_connections);
        clients.accept(&listener, &shutdown).await;
        // Nobody else is let in.
        drop(listener);
        clients.end(self.drain).await;
        let counts = self.counts();
        clients::report(&counts);
        counts
    }
}
