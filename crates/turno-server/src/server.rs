//! `turno serve`: Turno over HTTP, for programs in any language.
//!
//! Each handler is a thin call of the library. The bodies of requests are defined once, in [`turno_api`], and every
//! error is a problem of RFC 9457.
//!
//! The path of a request: `http::listener` accepts the connection; `http::middleware` gives the request an id, a language and a
//! timeout; `auth` verifies its token; a route reads it, checks the names against the caller's prefix, and calls the library.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use turno::{Error, Turno};

use crate::app::App;
use crate::auth::gatekeeper::CurrentAdmission;
use crate::background;
use crate::http::listener::{ConnectionOptions, HttpServer};
use crate::http::middleware;
use crate::http::tls::Tls;
use crate::options::Options;
use crate::routes;

/// An HTTP server on a store.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    tls: OnceCell<Arc<Tls>>,
}

impl Server {
    /// Creates a server on a store.
    pub fn new(turno: Turno, options: Options) -> Self {
        Server {
            app: Arc::new(App::new(turno, options)),
            tls: OnceCell::new(),
        }
    }

    /// Checks whether the server may listen on this address. Returns which callers it would admit. [`Server::run`] does the
    /// same check.
    ///
    /// # Errors
    /// Returns an error if callers on other machines would be admitted without a token although
    /// [`Admission::All`](crate::Admission::All) is not set, if the certificate is invalid, or if the store is unavailable.
    pub async fn check(&self, address: SocketAddr) -> turno::Result<CurrentAdmission> {
        self.tls().await?;
        let admission = self.app.gatekeeper.current_admission().await?;
        if admission == CurrentAdmission::Local && !address.ip().to_canonical().is_loopback() {
            return Err(Error::invalid(
                "listen",
                format!(
                    "{address} can be reached from other machines, and no access token was ever created: create one with \
                     `turno token create NAME --role admin`, or listen on 127.0.0.1"
                ),
            ));
        }
        Ok(admission)
    }

    /// Returns the routes with all middleware.
    fn router(&self) -> Router {
        middleware::layers(routes::all().0, &self.app).with_state(self.app.clone())
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
        let options = &self.app.options;
        let server = HttpServer {
            router: self.router(),
            tls,
            options: ConnectionOptions {
                max_connections: options.max_connections,
                head_timeout: options.head_timeout,
                write_timeout: options.write_timeout,
                drain: options.drain,
            },
            connections: self.app.metrics.connections(),
            closing: self.app.closing.clone(),
        };
        tokio::join!(stopping, work, server.serve(listener, &stop));
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
