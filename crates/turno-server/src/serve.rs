//! `turno serve`: Turno over HTTP, for programs in any language.
//!
//! Each handler is a thin call of the library; what a request may be is said once, in [`turno_client::wire`], and every error
//! is a problem of RFC 9457.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use tokio_util::sync::CancellationToken;
//! use turno_server::serve::{Options, Server};
//!
//! let turno = turno::Turno::connect("sqlite:turno.db").await?;
//! let server = Server::new(turno, Options::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7117").await?;
//! server.serve(listener, CancellationToken::new()).await?;
//! # Ok(()) }
//! ```
//!
//! The way of a request: [`listen`](self) lets a client in; `around` gives the request an id, a language and a bound; `access`
//! looks at its token; a route reads it, checks the names against the caller's prefix, and calls the library.

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
mod patient;
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

/// Where a server listens, unless said otherwise.
pub const ADDRESS: &str = "127.0.0.1:7117";

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// Whoever has an access token; and, as long as none was ever made, everybody who is on this machine.
    #[default]
    TokenOrLocal,
    /// Whoever has an access token.
    Token,
    /// Everybody, from anywhere.
    Everybody,
}

/// Who is let in as things are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Whoever has an access token.
    Tokens,
    /// Everybody on this machine, until the first access token is made.
    Local,
    /// Everybody, from anywhere.
    Everybody,
}

/// How a server works.
#[derive(Debug, Clone)]
pub struct Options {
    /// How people know the store: its URL, say, without a password. What kind of store it is, if not said.
    pub store: Option<String>,
    /// Who is let in.
    pub admission: Admission,
    /// The names by which clients may address a server that everybody is let in to, besides its addresses and names without
    /// a dot. Another name could be another site's, made to point here.
    pub hosts: Vec<String>,
    /// How long a claim of an item lives when a request does not say.
    pub inbox_lease: Duration,
    /// The longest that one request may wait for its turn; it asks again if it wants to wait longer.
    pub max_wait: Duration,
    /// The largest body, in bytes.
    pub max_body: usize,
    /// How long a client may take to say what it wants.
    pub head_timeout: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a client may leave an answer untouched.
    pub write_timeout: Duration,
    /// How many clients may be connected; more wait.
    pub max_connections: usize,
    /// How many requests may be in flight; more are told to come back.
    pub max_in_flight: usize,
    /// How many requests a second each caller may make; as many as it likes, if not said.
    pub rate: Option<u32>,
    /// How long work in flight may take to end at shutdown.
    pub drain: Duration,
    /// The certificate; plain HTTP is spoken, if not said.
    pub tls: Option<TlsFiles>,
    /// How often the store is tidied, and of what; never, if not said.
    pub sweep: Option<(Duration, Sweep)>,
    /// What is pushed at its times.
    pub schedules: Vec<Schedule>,
    /// Who publishes the outbox's events; nobody here, if not said.
    pub relay: Option<MakeRelay>,
    /// How the span of a request gets its parent; it has none, if not said.
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

/// What every handler has.
pub(crate) struct App {
    pub(crate) turno: Turno,
    pub(crate) options: Options,
    gatekeeper: Gatekeeper,
    limits: Limits,
    readiness: Readiness,
    pub(crate) metrics: Arc<Metrics>,
    feeds: Arc<Feeds>,
    /// Cancelled when the server shuts down: whoever waits is sent away.
    closing: CancellationToken,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl App {
    /// Something that may wait: cut off when the server shuts down, so that nobody is kept until the end of its patience.
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

    /// How long a request may wait that wants to wait so long.
    pub(crate) fn wait(&self, asked: Duration) -> Duration {
        asked.min(self.options.max_wait)
    }
}

/// Turno over HTTP.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    tls: OnceCell<Arc<Tls>>,
}

impl Server {
    /// A server on a store.
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

    /// Whether it may listen there, and who would be let in. [`Server::serve`] asks this too.
    ///
    /// # Errors
    /// If everybody on other machines would be let in and nobody said so, if the certificate cannot be used, or if the store
    /// does not answer.
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

    /// The routes, with everything around them.
    fn router(&self) -> Router {
        around::layers(routes::all().0, &self.app).with_state(self.app.clone())
    }

    /// Answers whoever connects, until `shutdown` is cancelled; then work in flight ends first, within a bound.
    ///
    /// Not cancel-safe: dropping it cuts off its clients.
    ///
    /// # Errors
    /// As [`Server::check`], before anybody is let in.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> turno::Result<()> {
        let address = listener.local_addr().map_err(|error| {
            Error::refused(format!("the listener has no address ({error}): bind it"))
        })?;
        self.check(address).await?;
        let tls = self.tls().await?;
        let work = background::run(&self.app, tls.clone(), &shutdown);
        let clients = listen::serve(&self.app, self.router(), tls, listener, &shutdown);
        tokio::join!(work, clients);
        self.app.feeds.ended().await;
        Ok(())
    }

    /// Reads the certificate's files again, now; they are looked at once a minute anyway.
    ///
    /// # Errors
    /// If they cannot be used; what was read before is used on.
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
