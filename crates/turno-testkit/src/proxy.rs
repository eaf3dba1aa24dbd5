//! A TCP proxy that fails on request, between a client and a real server.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::port;

/// Maximum number of bytes forwarded at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// Pause after a failed accept, which happens when there are no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A proxy to one server that can simulate network failures.
///
/// All connections are closed on drop.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// use turno_testkit::{PostgresServer, TcpProxy};
///
/// let server = PostgresServer::shared();
/// let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into()).await?;
/// let url = proxy.url_for(&server.create_database());
/// // … connect to `url`, then:
/// proxy.cut().await;
/// proxy.restore().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TcpProxy {
    addr: SocketAddr,
    target: StdMutex<SocketAddr>,
    shared: Arc<SharedState>,
    /// `None` while cut.
    tasks: Mutex<Option<Tasks>>,
}

impl TcpProxy {
    /// Starts a proxy to `target` on a free local port.
    ///
    /// # Errors
    ///
    /// Returns an error if no port can be bound.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = port::listen()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(SharedState {
            flowing: watch::Sender::new(true),
            delay: watch::Sender::new(Duration::ZERO),
            lose_answer: AtomicBool::new(false),
        });
        let tasks = Tasks::spawn(listener, target, &shared);
        Ok(Self {
            addr,
            target: StdMutex::new(target),
            shared,
            tasks: Mutex::new(Some(tasks)),
        })
    }

    /// Returns the address to connect to instead of the server's.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Replaces host and port of `url` by the proxy's: `postgres://user@db:5432/app` becomes
    /// `postgres://user@127.0.0.1:PORT/app`.
    ///
    /// # Panics
    ///
    /// Panics if `url` has no `scheme://`.
    #[track_caller]
    pub fn url_for(&self, url: &str) -> String {
        with_address(url, self.addr)
    }

    /// Closes all connections and refuses new ones, as if the server's machine had failed. The cut is complete when this
    /// returns.
    ///
    /// Not cancel-safe: a dropped call may leave some connections open for a moment.
    pub async fn cut(&self) {
        if let Some(tasks) = self.tasks.lock().await.take() {
            tasks.end().await;
        }
    }

    /// Keeps connections open, accepts new ones, and forwards nothing from now on, as after the loss of a route.
    ///
    /// [`restore`](Self::restore) forwards the data held back.
    pub fn black_hole(&self) {
        self.shared.flowing.send_replace(false);
    }

    /// Holds all data back for this time from now on, in both directions, as a slow network does. Zero ends it.
    pub fn delay(&self, by: Duration) {
        self.shared.delay.send_replace(by);
    }

    /// Ends a [`cut`](Self::cut) or [`black_hole`](Self::black_hole). Connections that were cut stay closed.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    ///
    /// Returns an error if another process took the port while the proxy was cut.
    pub async fn restore(&self) -> io::Result<()> {
        let mut tasks = self.tasks.lock().await;
        if tasks.is_none() {
            let listener = TcpListener::bind(self.addr).await?;
            let target = *self.target.lock().unwrap_or_else(PoisonError::into_inner);
            *tasks = Some(Tasks::spawn(listener, target, &self.shared));
        }
        self.shared.flowing.send_replace(true);
        Ok(())
    }

    /// Closes all connections, and forwards new ones to another server, as an address that moves in a failover.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub async fn move_to(&self, target: SocketAddr) -> io::Result<()> {
        self.cut().await;
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        self.restore().await
    }

    /// Forwards the next request of any client, discards the server's response, and closes that connection: a commit whose
    /// acknowledgement is lost. The client sees the close only when the server has finished the request.
    ///
    /// A *request* is all data that a client sends until the server responds. The first use of a prepared statement has two of
    /// them.
    pub fn drop_next_answer(&self) {
        self.shared.lose_answer.store(true, Ordering::SeqCst);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.get_mut() {
            tasks.cancel.cancel();
        }
    }
}

/// The state that all connections share.
#[derive(Debug)]
struct SharedState {
    flowing: watch::Sender<bool>,
    /// How long each piece of data is held back.
    delay: watch::Sender<Duration>,
    /// If set, the next request loses its response.
    lose_answer: AtomicBool,
}

/// The accept loop and its connections, until the next cut.
#[derive(Debug)]
struct Tasks {
    cancel: CancellationToken,
    tracker: TaskTracker,
}

impl Tasks {
    fn spawn(listener: TcpListener, target: SocketAddr, shared: &Arc<SharedState>) -> Self {
        let cancel = CancellationToken::new();
        let tracker = TaskTracker::new();
        let accepting = accept(
            listener,
            target,
            Arc::clone(shared),
            cancel.clone(),
            tracker.clone(),
        );
        tracker.spawn(cancel.clone().run_until_cancelled_owned(accepting));
        Self { cancel, tracker }
    }

    async fn end(self) {
        self.cancel.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    shared: Arc<SharedState>,
    cancel: CancellationToken,
    tracker: TaskTracker,
) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let connection = connect(client, target, Arc::clone(&shared));
                tracker.spawn(cancel.clone().run_until_cancelled_owned(connection));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Handles one connection, from accept to close. Any error closes it, as it would without a proxy.
async fn connect(client: TcpStream, target: SocketAddr, shared: Arc<SharedState>) {
    // A new connection in a black hole is accepted, and does not reach the server.
    if shared
        .flowing
        .subscribe()
        .wait_for(|flowing| *flowing)
        .await
        .is_err()
    {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    if client
        .set_nodelay(true)
        .and(server.set_nodelay(true))
        .is_err()
    {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let loss = Loss {
        chosen: AtomicBool::new(false),
        answered: CancellationToken::new(),
    };
    let (_, _) = tokio::join!(
        forward_requests(from_client, to_server, &shared, &loss),
        forward_answers(from_server, to_client, &shared, &loss),
    );
}

/// State of one connection for [`TcpProxy::drop_next_answer`].
struct Loss {
    /// This connection sent the request whose response is lost.
    chosen: AtomicBool,
    /// The server has begun to respond to that request.
    answered: CancellationToken,
}

/// Forwards requests. Ends, closing the server's read side, when the client has no more data or its lost response has begun.
async fn forward_requests(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    shared: &SharedState,
    loss: &Loss,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Some(read) = loss
            .answered
            .run_until_cancelled(read(&from, &mut chunk, shared))
            .await
        else {
            return Ok(());
        };
        let size = read?;
        if size == 0 {
            return Ok(());
        }
        if shared.lose_answer.swap(false, Ordering::SeqCst) {
            loss.chosen.store(true, Ordering::SeqCst);
        }
        hold_back(shared).await;
        write(&to, &chunk[..size], shared).await?;
    }
}

/// Forwards responses. Ends, closing the client's read side, when the server has no more data.
///
/// The lost response is read to its end before the client sees anything: after the other direction is closed, the server ends
/// the connection only when it has finished the request, committed or not.
async fn forward_answers(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    shared: &SharedState,
    loss: &Loss,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let size = read(&from, &mut chunk, shared).await?;
        if size == 0 {
            return Ok(());
        }
        if loss.chosen.load(Ordering::SeqCst) {
            loss.answered.cancel();
        } else {
            hold_back(shared).await;
            write(&to, &chunk[..size], shared).await?;
        }
    }
}

async fn hold_back(shared: &SharedState) {
    let by = *shared.delay.borrow();
    if !by.is_zero() {
        tokio::time::sleep(by).await;
    }
}

/// Reads only while data flows: in a black hole not even a close is forwarded.
async fn read(from: &OwnedReadHalf, chunk: &mut [u8], shared: &SharedState) -> io::Result<usize> {
    while_flowing(shared, || from.readable(), || from.try_read(chunk)).await
}

async fn write(to: &OwnedWriteHalf, mut bytes: &[u8], shared: &SharedState) -> io::Result<()> {
    while !bytes.is_empty() {
        let size = while_flowing(shared, || to.writable(), || to.try_write(bytes)).await?;
        bytes = &bytes[size..];
    }
    Ok(())
}

/// Runs `attempt` when the socket is ready and data flows. The attempt runs under the mutex of the state, so that nothing is
/// forwarded once [`TcpProxy::black_hole`] has returned.
async fn while_flowing<R: Future<Output = io::Result<()>>>(
    shared: &SharedState,
    ready: impl Fn() -> R,
    mut attempt: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut flowing = shared.flowing.subscribe();
    loop {
        ready().await?;
        let attempted = match flowing.wait_for(|flowing| *flowing).await {
            Ok(_flows) => attempt(),
            Err(_) => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        match attempted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

#[track_caller]
fn with_address(url: &str, addr: SocketAddr) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        panic!("{url:?} is not a URL: give one like postgres://user@host:port/database");
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let user = authority.rfind('@').map_or("", |at| &authority[..=at]);
    format!("{scheme}://{user}{addr}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_a_url_is_replaced_and_the_rest_kept() {
        let addr = "127.0.0.1:7117".parse().unwrap();
        for (url, expected) in [
            (
                "postgres://u:p%40@db:5432/app?a=b",
                "postgres://u:p%40@127.0.0.1:7117/app?a=b",
            ),
            ("postgres://db/app", "postgres://127.0.0.1:7117/app"),
            (
                "postgres://u@[::1]:5432?x=y",
                "postgres://u@127.0.0.1:7117?x=y",
            ),
            ("redis://db", "redis://127.0.0.1:7117"),
        ] {
            assert_eq!(with_address(url, addr), expected);
        }
    }
}
