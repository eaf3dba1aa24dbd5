//! Client connections: accepted, served and closed at shutdown.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_layer::Layer as _;
use tower_service::Service as _;
use turno::once::http::{Counts, OnceLayer};

use super::headers::Peer;
use super::proxy::{Forward, Proxy};
use crate::http::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::http::io_timeout::{ConnectionActivity, TimeoutStream};

/// Timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of concurrent requests per HTTP/2 connection: each may hold a body in memory.
const MAX_STREAMS: u32 = 100;
/// How often the counts are logged if they have changed.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The connection of a request.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) peer: Peer,
    /// Cancelled when the gate shuts down, which ends the tunnels.
    pub(super) closing: CancellationToken,
    /// Runs the tunnels.
    pub(super) tasks: TaskTracker,
    /// Counts against the connection limit as long as a request or a tunnel of the client exists.
    _permit: ConnectionPermit,
}

/// The connections of one listener.
pub(super) struct Clients {
    proxy: Arc<Proxy>,
    layer: OnceLayer,
    limit: ConnectionLimit,
    graceful: GracefulShutdown,
    connections: JoinSet<()>,
    tunnels: TaskTracker,
}

impl Clients {
    pub(super) fn new(proxy: Arc<Proxy>, layer: OnceLayer, max_connections: usize) -> Self {
        Clients {
            proxy,
            layer,
            limit: ConnectionLimit::new(max_connections),
            graceful: GracefulShutdown::new(),
            connections: JoinSet::new(),
            tunnels: TaskTracker::new(),
        }
    }

    /// Accepts connections until `closing` is cancelled.
    pub(super) async fn accept(&mut self, listener: &TcpListener, closing: &CancellationToken) {
        let mut reported = self.layer.counts();
        let mut minutes =
            tokio::time::interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
        minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = closing.cancelled() => return,
                _ = minutes.tick() => {
                    let counts = self.layer.counts();
                    if counts != reported {
                        report(&counts);
                        reported = counts;
                    }
                }
                // Drop the tasks of closed connections.
                Some(_) = self.connections.join_next() => {}
                (stream, peer, permit) = self.limit.next(listener) => self.start(stream, Origin {
                    peer: Peer::new(peer),
                    closing: closing.clone(),
                    tasks: self.tunnels.clone(),
                    _permit: permit,
                }),
            }
        }
    }

    fn start(&mut self, stream: TcpStream, origin: Origin) {
        let client = Forward::new(self.proxy.clone(), Arc::new(origin));
        let watcher = self.graceful.watcher();
        self.connections
            .spawn(serve(stream, client, self.layer.clone(), watcher));
    }

    /// Waits for the requests in flight, within a limit. Then closes the connections that remain.
    pub(super) async fn end(mut self, bound: Duration) {
        self.tunnels.close();
        let ended = async {
            self.graceful.shutdown().await;
            // Work whose client has disconnected must end too.
            self.layer.idle().await;
        };
        if tokio::time::timeout(bound, ended).await.is_err() {
            tracing::warn!(
                "requests in flight did not end in {bound:?}; closing their connections: they become unknown when their leases expire"
            );
        }
        self.connections.shutdown().await;
        self.tunnels.wait().await;
    }
}

async fn serve(stream: TcpStream, client: Forward, layer: OnceLayer, watcher: Watcher) {
    // hyper detects the protocol version without a timeout, so wait here until there are bytes to read.
    let spoken = tokio::select! {
        () = client.closing().cancelled() => return,
        spoken = tokio::time::timeout(HEAD_TIMEOUT, stream.readable()) => spoken,
    };
    if !matches!(spoken, Ok(Ok(()))) || stream.set_nodelay(true).is_err() {
        return;
    }
    let stream_timeout = client.stream_timeout();
    let service = layer.layer(client);
    // No `poll_ready` is needed: the proxy is always ready.
    let answer = service_fn(move |request: Request<Incoming>| service.clone().call(request));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS);
    let stream = TimeoutStream::new(stream, Arc::new(ConnectionActivity::new()), stream_timeout);
    let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), answer);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a client's connection ended");
    }
}

/// Logs the counts.
pub(super) fn report(counts: &Counts) {
    tracing::info!(
        fresh = counts.fresh,
        replayed = counts.replayed,
        in_flight = counts.in_flight,
        mismatch = counts.mismatch,
        unknown = counts.unknown,
        not_stored = counts.not_stored,
        over_quota = counts.over_quota,
        stale = counts.stale,
        unidentified = counts.unidentified,
        store_down = counts.store_down,
        shadowed = counts.shadowed,
        "requests under a policy, since the start"
    );
}
