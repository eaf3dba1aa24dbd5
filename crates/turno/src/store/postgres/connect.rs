//! The pool of sessions, and the route to the database.
//!
//! A transaction pooler sends each statement to any free server connection. There, named prepared statements would collide with
//! those of other clients, and a `listen` would remain on a connection that other clients use next. Both are used only if the
//! server that responds is the one that sent the greeting (`greeting.rs`). Each new session checks that, because another host may
//! respond next time (`dial.rs`).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, PoolError, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use tokio::sync::watch;
use tokio_postgres::Client;

use super::conninfo::Target;
use super::dial::{Address, Connection, Dialer, Opened};
use super::error::sqlstate;
use crate::error::{Error, Kind, Result};
use crate::settings::Settings;

/// Timeout for a session while all are in use.
const POOL_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time without a response, the host is probed, if there are several hosts.
const ANSWER_OVERDUE: Duration = Duration::from_millis(500);

/// Source of sessions.
#[derive(Clone)]
pub(super) enum Pool {
    /// Turno's own connections.
    Own(managed::Pool<Sessions>),
    /// A pool of the caller. Each session is returned after its call.
    Given(deadpool_postgres::Pool),
}

impl Pool {
    pub(super) async fn get(&self) -> Result<PooledSession> {
        match self {
            Pool::Own(pool) => pool.get().await.map(PooledSession::Own).map_err(pool_error),
            Pool::Given(pool) => {
                let client = pool.get().await.map_err(given_pool_error)?;
                Ok(PooledSession::Given(Session {
                    client: ClientHandle::Given(client),
                    // The pool may lead to a transaction pooler.
                    direct: false,
                    host: SessionHost { address: None },
                    max_age: Duration::MAX,
                }))
            }
        }
    }

    pub(super) fn status(&self) -> managed::Status {
        match self {
            Pool::Own(pool) => pool.status(),
            Pool::Given(pool) => pool.status(),
        }
    }

    /// Closes Turno's own connections. A pool of the caller stays open.
    pub(super) fn close(&self) {
        match self {
            Pool::Own(pool) => pool.close(),
            Pool::Given(_) => {}
        }
    }
}

/// A session during a call.
pub(super) enum PooledSession {
    Own(managed::Object<Sessions>),
    Given(Session),
}

impl PooledSession {
    /// Closes the session instead of returning it to the pool.
    pub(super) fn close(self) {
        match self {
            PooledSession::Own(session) => drop(managed::Object::take(session)),
            PooledSession::Given(session) => match session.client {
                ClientHandle::Given(client) => drop(deadpool_postgres::Object::take(client)),
                ClientHandle::Own(client) => drop(client),
            },
        }
    }
}

impl Deref for PooledSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        match self {
            PooledSession::Own(session) => session,
            PooledSession::Given(session) => session,
        }
    }
}

impl DerefMut for PooledSession {
    fn deref_mut(&mut self) -> &mut Session {
        match self {
            PooledSession::Own(session) => session,
            PooledSession::Given(session) => session,
        }
    }
}

#[derive(Debug)]
enum ClientHandle {
    Own(ClientWrapper),
    Given(deadpool_postgres::Object),
}

/// The route to the database.
#[derive(Debug)]
pub(super) struct Route {
    /// `None` for a pool of the caller, whose address is not known.
    dialer: Option<Dialer>,
    /// As the newest session has found; `None` before the first.
    direct: watch::Sender<Option<bool>>,
}

impl Route {
    /// Returns whether connections lead to the server without a transaction pooler.
    pub(super) fn is_direct(&self) -> bool {
        *self.direct.borrow() == Some(true)
    }

    /// Resolves when connections lead to the server without a transaction pooler.
    pub(super) async fn until_direct(&self) {
        let mut direct = self.direct.subscribe();
        // The sender is in this route, which the caller borrows.
        let _ = direct.wait_for(|direct| *direct == Some(true)).await;
    }

    /// Returns the target of the connections; `None` for a pool of the caller.
    pub(super) fn target(&self) -> Option<&Target> {
        self.dialer.as_ref().map(Dialer::target)
    }

    /// Returns whether there are several hosts.
    pub(super) fn has_choice(&self) -> bool {
        self.dialer.as_ref().is_some_and(Dialer::has_choice)
    }

    /// Opens a connection outside the pool. Returns an error if it leads to a pooler.
    pub(super) async fn connect(&self) -> Result<Own> {
        let opened = self.open().await?;
        if !opened.direct {
            return Err(Error::new(
                Kind::Unavailable,
                "there is a pooler between here and the server: nothing can be kept on a connection",
            ));
        }
        Ok(Own {
            client: opened.client,
            connection: opened.connection,
            host: SessionHost {
                address: Some((opened.address, opened.losses)),
            },
        })
    }

    async fn open(&self) -> Result<Opened> {
        let Some(dialer) = &self.dialer else {
            return Err(Error::new(
                Kind::Unavailable,
                "the connections are those of the caller's pool: Turno opens none of its own",
            ));
        };
        let opened = dialer.open().await?;
        self.direct
            .send_if_modified(|direct| direct.replace(opened.direct) != Some(opened.direct));
        Ok(opened)
    }

    /// Resolves when a session's host has failed. Never with one host: then only the call's timeout applies.
    ///
    /// Cancel-safe.
    pub(super) async fn lost(&self, host: &SessionHost) -> Error {
        let (Some(dialer), Some((address, _))) = (&self.dialer, &host.address) else {
            return std::future::pending().await;
        };
        // A busy pooler also responds late to a probe, which says nothing about the server.
        if !self.has_choice() || !self.is_direct() {
            return std::future::pending().await;
        }
        let probing = async {
            loop {
                tokio::time::sleep(ANSWER_OVERDUE).await;
                if dialer.probe(address).await {
                    return host.lose();
                }
            }
        };
        tokio::select! {
            () = host.lost() => {}
            () = probing => {}
        }
        Error::new(
            Kind::Unavailable,
            format!("the database at {address} does not answer any more: try again in a moment"),
        )
    }

    /// Requests the server to cancel the statement of a session. Errors are logged; the statement then ends by its own timeout.
    ///
    /// The session must not be used for other statements afterwards, because the request may be served late.
    pub(super) async fn cancel(&self, session: &Session) {
        if session.is_closed() || session.host.is_lost() {
            return;
        }
        let token = session.cancel_token();
        let cancelled = match (&self.dialer, &session.host.address) {
            (Some(dialer), Some((address, _))) => dialer.cancel(address, &token).await,
            // The TLS settings of the caller's pool are not known: an encrypted statement ends by its own timeout.
            _ => token
                .cancel_query(tokio_postgres::NoTls)
                .await
                .map_err(super::classify),
        };
        if let Err(error) = cancelled {
            tracing::debug!(%error, "a statement could not be cancelled");
        }
    }

    /// Returns the error for a session that accepts no writes. If there are several hosts, its host counts as failed.
    pub(super) fn read_only(&self, host: &SessionHost) -> Error {
        if !self.has_choice() {
            return Error::new(
                Kind::Refused,
                "the database is read-only (a standby?): connect to the primary, or end its read-only mode",
            );
        }
        host.lose();
        Error::new(
            Kind::Unavailable,
            format!(
                "the database at {host} is read-only, and another host may have become the primary: try again in a moment"
            ),
        )
    }

    /// Returns the error for the caller, and whether the session must be closed.
    pub(super) fn judge(&self, error: Error, host: &SessionHost) -> (Error, Verdict) {
        match sqlstate(&error) {
            Some("25006") if self.has_choice() => {
                (self.read_only(host).caused_by(error), Verdict::Close)
            }
            Some("25006" | "57P01" | "57P02" | "57P03") => (error, Verdict::Close),
            _ => (error, Verdict::Keep),
        }
    }
}

/// What to do with a session after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    Close,
}

/// A connection outside the pool; its owner polls it.
pub(super) struct Own {
    pub(super) client: Client,
    pub(super) connection: Connection,
    pub(super) host: SessionHost,
}

/// The host of a session.
#[derive(Debug, Clone)]
pub(super) struct SessionHost {
    /// The host and its loss count when the session began; `None` in a pool of the caller.
    address: Option<(Arc<Address>, u64)>,
}

impl std::fmt::Display for SessionHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.address {
            Some((address, _)) => address.fmt(f),
            None => f.write_str("the caller's pool"),
        }
    }
}

impl SessionHost {
    /// Resolves when a call has found that the address has failed.
    pub(super) async fn lost(&self) {
        match &self.address {
            Some((address, losses)) => address.lost_since(*losses).await,
            None => std::future::pending().await,
        }
    }

    fn is_lost(&self) -> bool {
        let address = self.address.as_ref();
        address.is_some_and(|(address, losses)| address.is_lost_since(*losses))
    }

    /// Marks the address as failed, so that no session on it is used again. Only the first call of several has an effect.
    fn lose(&self) {
        if let Some((address, losses)) = &self.address
            && !address.is_lost_since(*losses)
        {
            tracing::info!(%address, "a database host is given up; others are tried first");
            address.lose();
        }
    }
}

/// A session of the pool.
#[derive(Debug)]
pub(super) struct Session {
    client: ClientHandle,
    /// Whether statements may be prepared on it.
    pub(super) direct: bool,
    pub(super) host: SessionHost,
    max_age: Duration,
}

impl Deref for Session {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        match &self.client {
            ClientHandle::Own(client) => client,
            ClientHandle::Given(client) => client,
        }
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        match &mut self.client {
            ClientHandle::Own(client) => client,
            ClientHandle::Given(client) => client,
        }
    }
}

/// Opens the sessions of the pool, and decides which are reused.
#[derive(Debug)]
pub(super) struct Sessions {
    route: Arc<Route>,
    max_age: Duration,
}

impl managed::Manager for Sessions {
    type Type = Session;
    type Error = Error;

    async fn create(&self) -> Result<Session> {
        let opened = self.route.open().await?;
        let connection = opened.connection;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        Ok(Session {
            client: ClientHandle::Own(ClientWrapper::new(opened.client, task)),
            direct: opened.direct,
            host: SessionHost {
                address: Some((opened.address, opened.losses)),
            },
            max_age: self.max_age.mul_f64(1.0 - fastrand::f64() / 10.0),
        })
    }

    async fn recycle(&self, session: &mut Session, metrics: &Metrics) -> RecycleResult<Error> {
        if session.is_closed() {
            return Err(RecycleError::message("the connection is closed"));
        }
        if session.host.is_lost() {
            return Err(RecycleError::message("its host was given up"));
        }
        if metrics.age() >= session.max_age {
            return Err(RecycleError::message("it is old"));
        }
        Ok(())
    }
}

pub(super) async fn open(url: &str, settings: &Settings) -> Result<(Pool, Arc<Route>)> {
    let dialer = Dialer::new(Target::parse(url)?, settings.call_timeout);
    let open_timeout = dialer.open_timeout();
    let route = Arc::new(Route {
        dialer: Some(dialer),
        direct: watch::Sender::new(None),
    });
    let sessions = Sessions {
        route: route.clone(),
        max_age: settings.connection_max_age,
    };
    let pool = managed::Pool::builder(sessions)
        .max_size(settings.connections.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(POOL_WAIT_TIMEOUT))
        .create_timeout(Some(open_timeout))
        .build()
        .map_err(|error| {
            Error::caused(Kind::Broken, "the connection pool cannot be built", error)
        })?;
    let pool = Pool::Own(pool);
    drop(pool.get().await?);
    Ok((pool, route))
}

/// Uses a pool of the caller.
pub(super) async fn given(pool: deadpool_postgres::Pool) -> Result<(Pool, Arc<Route>)> {
    let pool = Pool::Given(pool);
    drop(pool.get().await?);
    let route = Route {
        dialer: None,
        direct: watch::Sender::new(None),
    };
    Ok((pool, Arc::new(route)))
}

fn given_pool_error(error: deadpool_postgres::PoolError) -> Error {
    match error {
        PoolError::Backend(error) => super::classify(error),
        other => Error::caused(
            Kind::Unavailable,
            format!("the given pool has no connection ({other}): check its size and its timeouts"),
            other,
        ),
    }
}

fn pool_error(error: PoolError<Error>) -> Error {
    match error {
        PoolError::Backend(error) => error,
        PoolError::Timeout(_) => Error::new(
            Kind::Unavailable,
            format!(
                "no connection to the database within {POOL_WAIT_TIMEOUT:?}: check that it runs, or raise the number of connections"
            ),
        ),
        other => Error::caused(Kind::Unavailable, "the connection pool is closed", other),
    }
}
