//! One connection to a broker, which can be closed immediately.

use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::tcp::OwnedTLSConfig;
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties, Event};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Address, fault};

/// Maximum duration of an orderly close before the socket is shut down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection. The client library's own recovery is off: with it, confirms could not be assigned to a connection.
pub(crate) struct Link {
    connection: Connection,
    scissors: Scissors,
    blocked: watch::Receiver<Option<String>>,
    watching: AbortHandle,
}

/// Options of a connection.
pub(crate) struct Dial<'a> {
    pub(crate) address: &'a Address,
    /// CA certificates in PEM that are trusted in addition to the public ones.
    pub(crate) authorities: Option<&'a str>,
    /// Connection name that the broker's operators see.
    pub(crate) name: &'a str,
    pub(crate) timeout: Duration,
}

impl Dial<'_> {
    /// Connects and logs in.
    ///
    /// Cancel-safe: dropping the future closes the connection.
    pub(crate) async fn connect(&self) -> Result<Link, String> {
        let scissors = Scissors::default();
        // Until `connect` returns, dropping its future must close the socket.
        let attempt = Attempt(Some(scissors.clone()));
        let connecting = tokio::time::timeout(self.timeout, self.handshake(&scissors));
        let connection = match connecting.await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(fault::explain(&error)),
            Err(_) => return Err(format!("no answer within {:?}", self.timeout)),
        };
        let (tell, blocked) = watch::channel(None);
        let mut events = connection.events_listener();
        let watching = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Event::ConnectionBlocked(reason) => tell.send_replace(Some(reason)),
                    Event::ConnectionUnblocked => tell.send_replace(None),
                    _ => continue,
                };
            }
        });
        attempt.succeeded();
        Ok(Link {
            connection,
            scissors,
            blocked,
            watching: watching.abort_handle(),
        })
    }

    async fn handshake(&self, scissors: &Scissors) -> lapin::Result<Connection> {
        let runtime = lapin::runtime::default_runtime()?;
        let properties = ConnectionProperties::default().with_connection_name(self.name.into());
        let tls = OwnedTLSConfig {
            identity: None,
            cert_chain: self.authorities.map(str::to_owned),
        };
        let scissors = scissors.clone();
        let limit = self.timeout;
        Connection::connector(
            self.address.uri().clone(),
            runtime,
            // This runs on a thread of the client library, which cannot be cancelled, so it needs a timeout of its own.
            async move |uri, runtime| {
                let host = uri.authority.host.as_str();
                let dialled = tokio::time::timeout(limit, async {
                    let found = tokio::net::lookup_host((host, uri.authority.port)).await?;
                    let stream =
                        AsyncTcpStream::connect(&runtime, found.collect::<Vec<_>>()).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        plain.get_ref().set_nodelay(true)?;
                        scissors.put_around(plain.get_ref())?;
                    }
                    match uri.scheme {
                        lapin::uri::AMQPScheme::AMQP => Ok(stream),
                        lapin::uri::AMQPScheme::AMQPS => stream.into_tls(host, tls.as_ref()).await,
                    }
                });
                match dialled.await {
                    Ok(dialled) => Ok(dialled?),
                    Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
                }
            },
            properties,
        )
        .await
    }
}

impl Link {
    pub(crate) fn is_alive(&self) -> bool {
        self.connection.status().connected() && !self.scissors.used()
    }

    /// Returns the reason if the broker currently blocks publishers.
    pub(crate) fn blocked(&self) -> Option<String> {
        self.blocked.borrow().clone()
    }

    /// Subscribes to changes of [`Link::blocked`].
    pub(crate) fn watch_blocked(&self) -> watch::Receiver<Option<String>> {
        self.blocked.clone()
    }

    /// Returns the maximum frame size that was negotiated, in bytes.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.connection.configuration().frame_max() as usize
    }

    pub(crate) async fn open_channel(&self) -> lapin::Result<Channel> {
        self.connection.create_channel().await
    }

    /// Closes the connection immediately. Data that the client library has queued and not written is not sent.
    pub(crate) fn cut(&self) {
        self.scissors.cut();
    }

    /// Closes the connection in an orderly way, or shuts down the socket if that takes too long.
    pub(crate) async fn close(&self) {
        if self.is_alive() {
            let goodbye = self.connection.close(200, "goodbye".into());
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
        }
        self.cut();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The client library closes the connection to the broker when it is dropped.
        self.watching.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("alive", &self.is_alive())
            .field("blocked", &self.blocked())
            .finish_non_exhaustive()
    }
}

/// An attempt to connect. Dropping it before it succeeds shuts down the socket.
struct Attempt(Option<Scissors>);

impl Attempt {
    fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(scissors) = &self.0 {
            scissors.cut();
        }
    }
}

/// A second handle of the connection's socket. The client library closes a connection only after the broker has agreed, and
/// its thread waits for that without a limit if the broker does not respond.
#[derive(Clone, Default)]
struct Scissors(Arc<Mutex<Blades>>);

#[derive(Default)]
struct Blades {
    socket: Option<TcpStream>,
    used: bool,
}

impl Scissors {
    fn put_around(&self, socket: impl AsFd) -> std::io::Result<()> {
        let socket = TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        let mut blades = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if blades.used {
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        blades.socket = Some(socket);
        Ok(())
    }

    fn cut(&self) {
        let mut blades = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blades.used = true;
        if let Some(socket) = blades.socket.take() {
            // An error means that the socket is closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn used(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).used
    }
}
