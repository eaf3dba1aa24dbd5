//! Opens one session, on any of the hosts and any of their addresses. A host that does not respond delays it only a little.
//!
//! Attempts overlap (`overlap.rs`). The first session that has the wanted attributes wins, and the other attempts are dropped. A
//! host whose last attempt failed is tried last.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, Config};
use tokio_util::either::Either;

use super::cancel::UntilClosed;
use super::conninfo::Target;
use super::error::{classify, silent, sqlstate, unreachable};
use super::greeting::{Greeted, GreetedTls, ProcessId};
use super::overlap::{self, first};
use super::tls::Tls;
use crate::error::{Error, Kind, Result};

/// Idle time after which TCP checks a connection, so that one to a machine without power is closed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// What tokio-postgres uses when the URL does not set `keepalives_idle`.
const KEEPALIVE_IDLE_UNSET: Duration = Duration::from_secs(2 * 60 * 60);
/// Sent data that is not acknowledged for this time breaks the connection.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait of a statement for one lock. A call that must wait longer returns its connection, and retries (`calls.rs`).
const LOCK_TIMEOUT: &str = "1s";
/// Difference between the statement timeout and the call timeout. A call cancels its statement when it times out; the statement
/// timeout ends the statement of a program that has crashed.
const STATEMENT_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);
/// Longest timeout that PostgreSQL accepts.
const MAX_TIMEOUT_MS: u128 = i32::MAX as u128;

/// The process at the other end, and whether it accepts writes.
pub(super) const SESSION_CHECK: &str = query!(session_check);
/// The same, and limits of the session, if there is no pooler.
const SESSION_OPEN: &str = query!(session_open);

/// A socket whose unencrypted bytes are inspected.
type RawStream = Greeted<Either<TcpStream, UnixStream>>;

/// A socket on which a cancellation is requested.
type CancelStream = UntilClosed<Either<TcpStream, UnixStream>>;

/// A connection that its owner must poll.
pub(super) type Connection =
    tokio_postgres::Connection<RawStream, Greeted<<Tls as MakeTlsConnect<RawStream>>::Stream>>;

/// A session that has been opened and checked.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) connection: Connection,
    /// Whether there is no pooler: the process of the greeting is the one that responds.
    pub(super) direct: bool,
    read_only: bool,
    pub(super) address: Arc<Address>,
    /// The address's loss count when the attempt began.
    pub(super) losses: u64,
}

/// The hosts of a URL, and their state.
#[derive(Debug)]
pub(super) struct Dialer {
    target: Target,
    hosts: Vec<KnownHost>,
    /// As PostgreSQL reads it.
    statement_timeout: String,
}

/// One host of the URL.
#[derive(Debug)]
struct KnownHost {
    config: Arc<Config>,
    name: Option<String>,
    at: At,
    port: u16,
    /// Whether the last attempt failed.
    failed: AtomicBool,
    /// Every address that the name has resolved to.
    addresses: Mutex<Vec<Arc<Address>>>,
}

#[derive(Debug)]
enum At {
    Name(String),
    Socket(PathBuf),
}

/// One address of a host.
#[derive(Debug)]
pub(super) struct Address {
    endpoint: Endpoint,
    config: Arc<Config>,
    name: Option<String>,
    failed: AtomicBool,
    /// Number of times that the address has failed. Sessions that were opened before are closed.
    losses: watch::Sender<u64>,
    /// Held by the one call that probes the address.
    probe: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for KnownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Name(name) => write!(f, "{}:{}", self.name.as_ref().unwrap_or(name), self.port),
            At::Socket(path) => path.display().fmt(f),
        }
    }
}

impl Dialer {
    pub(super) fn new(target: Target, call_timeout: Duration) -> Self {
        let hosts = target.hosts().iter().filter_map(known_host).collect();
        let statement_timeout = call_timeout.saturating_add(STATEMENT_TIMEOUT_MARGIN);
        Dialer {
            target,
            hosts,
            statement_timeout: format!("{}ms", statement_timeout.as_millis().min(MAX_TIMEOUT_MS)),
        }
    }

    /// Returns the target of the connections.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns whether there are several hosts.
    pub(super) fn has_choice(&self) -> bool {
        self.hosts.len() > 1
            || self.target.config().get_target_session_attrs() == TargetSessionAttrs::ReadWrite
    }

    /// Returns the longest duration of [`Dialer::open`]: a name lookup and all hosts, one after the other.
    pub(super) fn open_timeout(&self) -> Duration {
        let hosts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        self.target
            .connect_timeout()
            .saturating_mul(hosts.saturating_add(1))
    }

    /// Opens a session on the first host that has the wanted attributes.
    ///
    /// Cancel-safe: attempts in progress are closed.
    pub(super) async fn open(&self) -> Result<Opened> {
        let mut hosts: Vec<&KnownHost> = self.hosts.iter().collect();
        if self.target.config().get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut hosts);
        }
        hosts.sort_by_key(|host| host.failed.load(Ordering::Relaxed));
        let mut attempts: Vec<overlap::Attempt<'_, Opened>> = Vec::new();
        for host in hosts {
            attempts.push(Box::pin(self.open_host(host)));
        }
        first(attempts, |opened| !opened.read_only).await
    }

    /// Tries the addresses of one host, as its name resolves now.
    async fn open_host(&self, host: &KnownHost) -> Result<Opened> {
        let attempt = Attempt::begin(&host.failed);
        let opened = self.open_addresses(host).await;
        attempt.end(opened).map_err(|error| match self.hosts.len() {
            0 | 1 => error,
            _ => named(&host.to_string(), &error),
        })
    }

    async fn open_addresses(&self, host: &KnownHost) -> Result<Opened> {
        let timeout = self.target.connect_timeout();
        let mut addresses = tokio::time::timeout(timeout, host.resolve())
            .await
            .unwrap_or_else(|_| Err(silent(timeout)))?;
        addresses.sort_by_key(|address| address.failed.load(Ordering::Relaxed));
        let mut attempts: Vec<overlap::Attempt<'_, Opened>> = Vec::new();
        for address in addresses {
            attempts.push(Box::pin(self.open_address(address)));
        }
        first(attempts, |opened| !opened.read_only).await
    }

    async fn open_address(&self, address: Arc<Address>) -> Result<Opened> {
        let attempt = Attempt::begin(&address.failed);
        let timeout = self.target.connect_timeout();
        let opened = tokio::time::timeout(timeout, self.session(&address))
            .await
            .unwrap_or_else(|_| Err(silent(timeout)));
        attempt.end(opened)
    }

    /// Connects, logs in, and checks the session.
    async fn session(&self, address: &Arc<Address>) -> Result<Opened> {
        let losses = *address.losses.borrow();
        let config = &address.config;
        let socket = open_socket(config, &address.endpoint).await;
        let greeted_by = ProcessId::default();
        let socket = Greeted::socket(
            socket.map_err(unreachable)?,
            config.get_ssl_mode(),
            config.get_ssl_negotiation(),
            &greeted_by,
        );
        let host = address.name.as_deref().unwrap_or_default();
        let Ok(connector) =
            MakeTlsConnect::<RawStream>::make_tls_connect(&mut self.target.tls(), host);
        let tls = GreetedTls {
            connector,
            process: greeted_by.clone(),
        };
        let handshake = config.connect_raw(socket, tls);
        let (client, mut connection) = handshake.await.map_err(classify)?;
        let (process, lock_timeout, statement_timeout) = (
            greeted_by.get(),
            unless_set(config, "lock_timeout", LOCK_TIMEOUT),
            unless_set(config, "statement_timeout", &self.statement_timeout),
        );
        let limits: [(&(dyn ToSql + Sync), Type); 3] = [
            (&process, Type::INT4),
            (&lock_timeout, Type::TEXT),
            (&statement_timeout, Type::TEXT),
        ];
        let rows = tokio::select! {
            rows = client.query_typed(SESSION_OPEN, &limits) => rows.map_err(classify)?,
            ended = &mut connection => return Err(match ended {
                Err(error) => classify(error),
                Ok(()) => unreachable(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }),
        };
        let row = rows
            .first()
            .ok_or_else(|| Error::new(Kind::Broken, "the check of a session has no row"))?;
        let answered_by: i32 = row.try_get("process").map_err(classify)?;
        let read_only: bool = row.try_get("read_only").map_err(classify)?;
        match (self.target.config().get_target_session_attrs(), read_only) {
            (TargetSessionAttrs::ReadWrite, true) => {
                return Err(Error::new(
                    Kind::Unavailable,
                    "the database is read-only (a standby?), and target_session_attrs asks for read-write: try again in a moment",
                ));
            }
            (TargetSessionAttrs::ReadOnly, false) => {
                return Err(Error::new(
                    Kind::Unavailable,
                    "the database accepts writes, and target_session_attrs asks for read-only: try again in a moment",
                ));
            }
            _ => {}
        }
        Ok(Opened {
            client,
            connection,
            direct: greeted_by.get() == answered_by,
            read_only: read_only
                && self.target.config().get_target_session_attrs() == TargetSessionAttrs::Any,
            address: address.clone(),
            losses,
        })
    }

    /// Requests the server at this address to cancel a statement, with the TLS settings of its session.
    ///
    /// Resolves when the server has served the request. Cancel-safe: the request may have been sent or not.
    pub(super) async fn cancel(&self, address: &Address, token: &CancelToken) -> Result<()> {
        let cancel = async {
            let socket = open_socket(&address.config, &address.endpoint).await;
            let socket = socket.map_err(unreachable)?;
            let host = address.name.as_deref().unwrap_or_default();
            let Ok(connector) =
                MakeTlsConnect::<CancelStream>::make_tls_connect(&mut self.target.tls(), host);
            let cancelled = token.cancel_query_raw(UntilClosed(socket), connector);
            cancelled.await.map_err(classify)
        };
        let timeout = self.target.connect_timeout();
        tokio::time::timeout(timeout, cancel)
            .await
            .unwrap_or_else(|_| Err(silent(timeout)))
    }

    /// Opens a session on this address, to check whether it has failed. Returns `false` if another call checks it already.
    ///
    /// Cancel-safe.
    pub(super) async fn probe(&self, address: &Arc<Address>) -> bool {
        let Ok(_turn) = address.probe.try_lock() else {
            return false;
        };
        match self.open_address(address.clone()).await {
            Ok(_) => false,
            // A server that refuses a new session still serves the existing ones.
            Err(error) => {
                error.is_unavailable() && !matches!(sqlstate(&error), Some("53300" | "08P01"))
            }
        }
    }
}

impl Address {
    /// Returns whether the address has failed since it had this many losses.
    pub(super) fn is_lost_since(&self, losses: u64) -> bool {
        *self.losses.borrow() != losses
    }

    /// Resolves when the address has failed since then.
    pub(super) async fn lost_since(&self, losses: u64) {
        let mut seen = self.losses.subscribe();
        // The sender is in this address, which the caller borrows.
        let _ = seen.wait_for(|now| *now != losses).await;
    }

    /// Marks the address as failed, so that its sessions are closed.
    pub(super) fn lose(&self) {
        self.failed.store(true, Ordering::Relaxed);
        self.losses.send_modify(|losses| *losses += 1);
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl KnownHost {
    async fn resolve(&self) -> Result<Vec<Arc<Address>>> {
        let endpoints = match &self.at {
            At::Socket(folder) => vec![Endpoint::Unix(
                folder.join(format!(".s.PGSQL.{}", self.port)),
            )],
            At::Name(name) => tokio::net::lookup_host((name.as_str(), self.port))
                .await
                .map_err(unreachable)?
                .map(Endpoint::Tcp)
                .collect(),
        };
        if endpoints.is_empty() {
            return Err(unreachable(io::Error::other("the name has no address")));
        }
        let mut known = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Addresses that the name no longer resolves to are removed; their sessions keep a reference.
        let addresses: Vec<Arc<Address>> = endpoints
            .into_iter()
            .map(|endpoint| {
                let before = known.iter().find(|address| address.endpoint == endpoint);
                before.cloned().unwrap_or_else(|| {
                    Arc::new(Address {
                        endpoint,
                        config: self.config.clone(),
                        name: self.name.clone(),
                        failed: AtomicBool::new(false),
                        losses: watch::Sender::new(0),
                        probe: tokio::sync::Mutex::new(()),
                    })
                })
            })
            .collect();
        known.clone_from(&addresses);
        Ok(addresses)
    }
}

/// Creates a host. `hostaddr` saves the lookup of its name.
fn known_host(config: &Config) -> Option<KnownHost> {
    let name = config.get_hosts().first();
    let at = match (config.get_hostaddrs().first(), name) {
        (Some(address), _) => At::Name(address.to_string()),
        (None, Some(Host::Tcp(name))) => At::Name(name.clone()),
        (None, Some(Host::Unix(folder))) => At::Socket(folder.clone()),
        (None, None) => return None,
    };
    Some(KnownHost {
        config: Arc::new(config.clone()),
        name: match name {
            Some(Host::Tcp(name)) => Some(name.clone()),
            _ => None,
        },
        at,
        port: config.get_ports().first().copied().unwrap_or(5432),
        failed: AtomicBool::new(false),
        addresses: Mutex::default(),
    })
}

/// Returns a limit for the session; `None` if the connection string sets it.
fn unless_set<'a>(config: &Config, setting: &str, limit: &'a str) -> Option<&'a str> {
    let is_set = config
        .get_options()
        .is_some_and(|options| options.contains(setting));
    (!is_set).then_some(limit)
}

async fn open_socket(
    config: &Config,
    endpoint: &Endpoint,
) -> io::Result<Either<TcpStream, UnixStream>> {
    let address = match endpoint {
        Endpoint::Unix(path) => return UnixStream::connect(path).await.map(Either::Right),
        Endpoint::Tcp(address) => address,
    };
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(
        config
            .get_tcp_user_timeout()
            .copied()
            .unwrap_or(TCP_USER_TIMEOUT),
    ))?;
    if config.get_keepalives() {
        let idle = match config.get_keepalives_idle() {
            KEEPALIVE_IDLE_UNSET => KEEPALIVE_IDLE,
            idle => idle,
        };
        let interval = config.get_keepalives_interval();
        let retries = config.get_keepalives_retries();
        socket.set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(idle)
                .with_interval(interval.unwrap_or(KEEPALIVE_INTERVAL))
                .with_retries(retries.unwrap_or(KEEPALIVE_RETRIES)),
        )?;
    }
    Ok(Either::Left(stream))
}

fn named(host: &str, error: &Error) -> Error {
    Error::caused(
        error.kind().clone(),
        format!("{host}: {error}"),
        error.clone(),
    )
}

/// Marks an attempt as failed if it ends without a session, also on drop.
struct Attempt<'a> {
    failed: &'a AtomicBool,
    succeeded: bool,
}

impl<'a> Attempt<'a> {
    fn begin(failed: &'a AtomicBool) -> Self {
        Attempt {
            failed,
            succeeded: false,
        }
    }

    fn end(mut self, opened: Result<Opened>) -> Result<Opened> {
        self.succeeded = matches!(&opened, Ok(opened) if !opened.read_only);
        opened
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.failed.store(!self.succeeded, Ordering::Relaxed);
    }
}
