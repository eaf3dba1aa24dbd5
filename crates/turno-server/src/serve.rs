//! `turno serve`: Turno over HTTP, for programs in any language.
//!
//! Each handler is a thin call of the library. The bodies of requests are defined once, in [`turno_client::wire`], and every
//! error is a problem of RFC 9457.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use turno_server::serve::{Options, Server};
//!
//! let turno = turno::Turno::connect("sqlite:turno.db").await?;
//! let server = Server::new(turno, Options::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7117").await?;
//! let shutdown = std::future::pending(); // usually a signal
//! server.run(listener, shutdown).await?;
//! # Ok(()) }
//! ```
//!
//! The path of a request: [`listen`](self) accepts the connection; `around` gives the request an id, a language and a timeout;
//! `access` verifies its token; a route reads it, checks the names against the caller's prefix, and calls the library.

mod access;
mod around;
mod ask;
mod background;
mod caller;
mod dashboard;
mod feed;
mod health;
mod limit;
mod listen;
mod metrics;
mod openapi;
pub(crate) mod patient;
mod problem;
mod routes;
mod seen;
mod stream;
mod telemetry;
mod tls;
mod words;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use turno::schedule::Schedule;
use turno::store::Sweep;
use turno::{Error, Turno};

use self::access::Gatekeeper;
pub use self::background::MakeRelay;
use self::feed::Feeds;
use self::health::Readiness;
use self::limit::Limits;
use self::metrics::Metrics;
pub use self::openapi::openapi;
use self::problem::Problem;
pub use self::telemetry::Adopt;
use self::tls::Tls;
pub use self::tls::TlsFiles;
use self::words::Code;

/// Default address on which a server listens.
pub const ADDRESS: &str = "127.0.0.1:7117";

/// Which callers a server admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// Callers with an access token. As long as no token was ever created, all callers on this machine.
    #[default]
    TokenOrLocal,
    /// Callers with an access token.
    Token,
    /// All callers, from any machine.
    Everybody,
}

/// Which callers a server admits at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Callers with an access token.
    Tokens,
    /// All callers on this machine, until the first access token is created.
    Local,
    /// All callers, from any machine.
    Everybody,
}

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
    /// Sets the parent of a request's span. Default: no parent.
    pub trace: Option<Adopt>,
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
            trace: None,
        }
    }
}

/// State of the server, shared by all handlers.
pub(crate) struct App {
    pub(crate) turno: Turno,
    pub(crate) options: Options,
    gatekeeper: Gatekeeper,
    limits: Limits,
    readiness: Readiness,
    pub(crate) metrics: Arc<Metrics>,
    feeds: Arc<Feeds>,
    /// Cancelled when the server shuts down, which ends the requests that wait.
    closing: CancellationToken,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl App {
    /// Runs work that may wait. At shutdown it is cancelled, so that no request waits until its timeout.
    pub(crate) async fn patiently<T>(
        &self,
        work: impl Future<Output = turno::Result<T>>,
    ) -> Result<T, Problem> {
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = self.closing.cancelled() => Err(Problem::new(Code::ShuttingDown)),
        }
    }

    /// Limits the wait of a request to [`Options::max_wait`].
    pub(crate) fn wait(&self, asked: Duration) -> Duration {
        asked.min(self.options.max_wait)
    }
}

/// An HTTP server on a store.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    tls: OnceCell<Arc<Tls>>,
}

impl Server {
    /// Creates a server on a store.
    pub fn new(turno: Turno, options: Options) -> Self {
        let gatekeeper = Gatekeeper::new(turno.clone(), options.admission, options.hosts.clone());
        let metrics = Arc::new(Metrics::new(&turno));
        let closing = CancellationToken::new();
        let feeds = Feeds::new(turno.clone(), metrics.clone(), closing.clone());
        let app = App {
            gatekeeper,
            limits: Limits::new(&options),
            readiness: Readiness::default(),
            metrics,
            feeds: Arc::new(feeds),
            closing,
            turno,
            options,
        };
        Server {
            app: Arc::new(app),
            tls: OnceCell::new(),
        }
    }

    /// Checks whether the server may listen on this address. Returns which callers it would admit. [`Server::run`] does the
    /// same check.
    ///
    /// # Errors
    /// Returns an error if callers on other machines would be admitted without a token although [`Admission::Everybody`] is not
    /// set, if the certificate is invalid, or if the store is unavailable.
    pub async fn check(&self, address: SocketAddr) -> turno::Result<Opening> {
        self.tls().await?;
        let opening = self.app.gatekeeper.opening().await?;
        if opening == Opening::Local && !address.ip().to_canonical().is_loopback() {
            return Err(Error::invalid_field(
                "listen",
                format!(
                    "{address} can be reached from other machines, and no access token was ever made: make one with \
                     `turno token create NAME --role admin`, or listen on 127.0.0.1"
                ),
            ));
        }
        Ok(opening)
    }

    /// Returns the routes with all middleware.
    fn router(&self) -> Router {
        around::layers(routes::all().0, &self.app).with_state(self.app.clone())
    }

    /// Serves clients until `shutdown` resolves. Then requests in flight may end within [`Options::drain`].
    ///
    /// Not cancel-safe: dropping the future closes the connections.
    ///
    /// # Errors
    /// Same as [`Server::check`], before the first connection is accepted.
    pub async fn run(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> turno::Result<()> {
        let address = listener.local_addr().map_err(|error| {
            Error::refused(format!("the listener has no address ({error}): bind it"))
        })?;
        self.check(address).await?;
        let tls = self.tls().await?;
        let stop = CancellationToken::new();
        let stopping = async {
            shutdown.await;
            stop.cancel();
        };
        let work = background::run(&self.app, tls.clone(), &stop);
        let clients = listen::serve(&self.app, self.router(), tls, listener, &stop);
        tokio::join!(stopping, work, clients);
        self.app.feeds.ended().await;
        Ok(())
    }

    /// Reads the certificate files again now. The server also checks them once per minute.
    ///
    /// # Errors
    /// Returns an error if the files are invalid. The server keeps the certificate that it has.
    pub async fn reload(&self) -> turno::Result<()> {
        match self.tls().await? {
            Some(tls) => tls.reload().await.map(drop),
            None => Ok(()),
        }
    }

    async fn tls(&self) -> turno::Result<Option<Arc<Tls>>> {
        let Some(files) = &self.app.options.tls else {
            return Ok(None);
        };
        let tls = self.tls.get_or_try_init(|| Tls::load(files.clone()));
        Ok(Some(tls.await?.clone()))
    }
}
