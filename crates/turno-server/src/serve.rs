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
//! server.serve(listener, CancellationToken::new()).await;
//! # Ok(()) }
//! ```
//!
//! The way of a request: [`listen`](self) lets a client in; `around` gives the request an id, a language and a bound; `access`
//! looks at its token; a route reads it, checks the names against the caller's prefix, and calls the library.

mod access;
mod around;
mod ask;
mod caller;
mod listen;
mod openapi;
mod problem;
mod routes;
mod words;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turno::Turno;

use self::access::Gatekeeper;
pub use self::openapi::openapi;
use self::problem::Problem;
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

/// How a server works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who is let in.
    pub admission: Admission,
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
    /// How many clients may be connected; more wait.
    pub max_connections: usize,
    /// How many requests may be in flight; more are told to come back.
    pub max_in_flight: usize,
    /// How many requests a second each caller may make; as many as it likes, if not said.
    pub rate: Option<u32>,
    /// How long work in flight may take to end at shutdown.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            admission: Admission::default(),
            inbox_lease: Duration::from_secs(30),
            max_wait: Duration::from_secs(60),
            max_body: 16 * 1024 * 1024,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            max_connections: 10_000,
            max_in_flight: 10_000,
            rate: None,
            drain: Duration::from_secs(30),
        }
    }
}

/// What every handler has.
pub(crate) struct App {
    pub(crate) turno: Turno,
    pub(crate) options: Options,
    gatekeeper: Gatekeeper,
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
}

impl Server {
    /// A server on a store.
    pub fn new(turno: Turno, options: Options) -> Self {
        let gatekeeper = Gatekeeper::new(turno.clone(), options.admission);
        let app = App {
            turno,
            options,
            gatekeeper,
            closing: CancellationToken::new(),
        };
        Server { app: Arc::new(app) }
    }

    /// The routes, with everything around them.
    fn router(&self) -> Router {
        around::layers(routes::all().0, &self.app).with_state(self.app.clone())
    }

    /// Answers whoever connects, until `shutdown` is cancelled; then work in flight ends first, within a bound.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) {
        listen::serve(&self.app, self.router(), listener, shutdown).await;
    }
}
