//! `turno gate`: a reverse proxy that applies once to the requests of a service.
//!
//! It stands in front of a service in any language and wraps it in [`turno::once::http`]. Each route has a policy; requests
//! of routes without a policy pass unchanged.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use turno::once::http::{Policy, Routes};
//! use turno_server::gate::{Gate, Options, Upstream};
//!
//! let turno = turno::Turno::connect("postgres://app@db/app").await?;
//! let routes = Routes::new().add("/pagos", Policy::new("pagos"))?;
//! let upstream: Upstream = "http://127.0.0.1:8080".parse()?;
//! let gate = Gate::new(turno, upstream, routes, Options::default());
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7118").await?;
//! let shutdown = std::future::pending(); // usually a signal
//! let counts = gate.run(listener, shutdown).await;
//! # drop(counts); Ok(()) }
//! ```
//!
//! - If the connection to the service fails before anything of a request was sent, the next request with the same key runs. If
//!   a part was sent, the outcome is *unknown*.
//! - A request is sent once. The gate never repeats a request that may have reached the service.
//! - Bodies of routes without a policy are streamed in both directions. Upgrades (WebSocket) are tunnelled.

mod admin;
mod answering;
mod clients;
pub mod config;
mod failure;
mod headers;
mod options;
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
pub use turno::once::http::Counts;
use turno::once::http::{OnceLayer, Routes};

use self::clients::Clients;
pub use self::options::{
    ANSWER_TIMEOUT, BODY_TIMEOUT, DRAIN, HostHeader, MAX_CONNECTIONS, Options, STREAM_TIMEOUT,
};
pub use self::probe::{HttpProber, ProbePath};
use self::proxy::Proxy;
pub use self::upstream::{BadUpstream, Upstream};

/// A reverse proxy that applies once to the requests of a service.
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
    /// Creates a gate in front of a service.
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

    /// Returns the number of requests under a policy, per outcome.
    pub fn counts(&self) -> Counts {
        self.layer.counts()
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` on an address of their own, until `shutdown` resolves. `/readyz` returns 503
    /// while the store does not accept writes, and as soon as `closing` is cancelled.
    ///
    /// # Errors
    /// Returns an error if the listener cannot be used.
    pub async fn run_admin(
        &self,
        listener: TcpListener,
        closing: CancellationToken,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        admin::serve(
            listener,
            self.turno.clone(),
            self.layer.clone(),
            closing,
            shutdown,
        )
        .await
    }

    /// Serves clients until `shutdown` resolves. Then requests in flight may end within [`Options::drain`].
    ///
    /// Not cancel-safe: dropping the future closes the connections and leaves the requests in flight *unknown*.
    pub async fn run(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Counts {
        let mut clients =
            Clients::new(self.proxy.clone(), self.layer.clone(), self.max_connections);
        let stop = CancellationToken::new();
        let stopping = async {
            shutdown.await;
            stop.cancel();
        };
        tokio::join!(stopping, clients.accept(&listener, &stop));
        // Accept no more connections.
        drop(listener);
        clients.end(self.drain).await;
        let counts = self.counts();
        clients::report(&counts);
        counts
    }
}
