//! Opening connections, and finding out whether they lead straight to the server.
//!
//! A transaction pooler hands each statement to whichever server connection is free, so statements
//! prepared by name would meet strangers' statements of the same name there, and a `listen` would stay
//! behind on a connection that others are given next. Both are done only where the server that
//! answers is the one that greeted us (`greeting.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Connect, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

use super::classify;
use super::greeting::Greeted;
use crate::error::{Error, Kind, Result};

/// How long to wait for a connection, new or from the pool.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const UNKNOWN: u8 = 0;
const DIRECT: u8 = 1;
const POOLED: u8 = 2;

/// The way to the database.
#[derive(Debug)]
pub(super) struct Route {
    config: Config,
    direct: AtomicU8,
}

impl Route {
    /// Whether connections lead straight to the server, with no transaction pooler between.
    pub(super) fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed) == DIRECT
    }

    /// A connection of its own, outside the pool.
    pub(super) fn connect(
        &self,
    ) -> impl Future<Output = Result<(Client, Connection<Socket, tokio_postgres::tls::NoTlsStream>)>>
    {
        let config = self.config.clone();
        async move { config.connect(NoTls).await.map_err(classify) }
    }
}

pub(super) async fn open(url: &str, connections: usize) -> Result<(Pool, Arc<Route>)> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        // Not the URL itself: it may hold a password.
        Error::caused(
            Kind::invalid("store"),
            format!("the store's URL is malformed ({error}): it looks like postgres://user@host:5432/database"),
            error,
        )
    })?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("turno");
    }
    let route = Arc::new(Route {
        config: config.clone(),
        direct: AtomicU8::new(UNKNOWN),
    });
    let manager = Manager::from_connect(
        config,
        Dial(route.clone()),
        ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        },
    );
    let pool = Pool::builder(manager)
        .max_size(connections.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_TIMEOUT))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .build()
        .map_err(|error| {
            Error::caused(Kind::Broken, "the connection pool cannot be built", error)
        })?;
    drop(pool.get().await.map_err(pool_error)?);
    Ok((pool, route))
}

pub(super) fn pool_error(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => classify(error),
        PoolError::Timeout(_) => Error::new(
            Kind::Unavailable,
            format!(
                "no connection to the database within {CONNECT_TIMEOUT:?}: check that it runs, or raise the number of connections"
            ),
        ),
        other => Error::caused(Kind::Unavailable, "the connection pool is closed", other),
    }
}

/// How the pool opens a connection: as tokio-postgres would, but the first one is listened to while
/// it opens.
struct Dial(Arc<Route>);

impl Connect for Dial {
    fn connect(
        &self,
        config: &Config,
    ) -> std::pin::Pin<
        Box<
            dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>>
                + Send
                + '_,
        >,
    > {
        let config = config.clone();
        Box::pin(async move {
            if self.0.direct.load(Ordering::Relaxed) == UNKNOWN
                && let Some((client, task, direct)) = dial_known(&config).await
            {
                self.0
                    .direct
                    .store(if direct { DIRECT } else { POOLED }, Ordering::Relaxed);
                return Ok((client, task));
            }
            let (client, connection) = config.connect(NoTls).await?;
            Ok((client, spawn(connection)))
        })
    }
}

/// The first connection, opened by hand. `None` if that did not work: the ordinary way will tell why.
async fn dial_known(config: &Config) -> Option<(Client, JoinHandle<()>, bool)> {
    let host = config.get_hosts().first()?;
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match host {
        Host::Tcp(name) => {
            let socket =
                tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((name.as_str(), port)))
                    .await
                    .ok()?
                    .ok()?;
            socket.set_nodelay(true).ok()?;
            greet(config, socket).await
        }
        Host::Unix(folder) => {
            let socket = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}")))
                .await
                .ok()?;
            greet(config, socket).await
        }
    }
}

async fn greet<S>(config: &Config, socket: S) -> Option<(Client, JoinHandle<()>, bool)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (socket, said) = Greeted::new(socket);
    let (client, connection) = config.connect_raw(socket, NoTls).await.ok()?;
    let task = spawn(connection);
    let row = client
        .query_typed("select pg_backend_pid()", &[])
        .await
        .ok()?;
    let is: i32 = row.first()?.try_get(0).ok()?;
    Some((client, task, said.load(Ordering::Acquire) == is))
}

fn spawn<S>(connection: Connection<S, tokio_postgres::tls::NoTlsStream>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    })
}
