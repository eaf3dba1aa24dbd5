//! Client connections: accepted, served and closed at shutdown.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use super::connection_limit::{ConnectionLimit, ConnectionPermit};
use super::io_timeout::{ConnectionActivity, CountedBody, TimeoutStream};
use super::tls::Tls;

/// Maximum number of concurrent requests per HTTP/2 connection: each may hold a body in memory.
const MAX_STREAMS: u32 = 100;
/// Maximum size of a request's head, in bytes. Each open connection keeps a buffer of this size; the next larger limit would
/// double it.
const MAX_HEAD_BYTES: u32 = 8 * 1024;
/// HTTP/2 flow-control windows in bytes: unread body data per connection and per request.
const FLOW_CONTROL_BYTES: (u32, u32) = (1024 * 1024, 256 * 1024);
/// How long an idle connection may take to close after a graceful shutdown was requested.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Address of the client. An extension of each request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Limits of the connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionOptions {
    pub(crate) max_connections: usize,
    pub(crate) head_timeout: Duration,
    pub(crate) write_timeout: Duration,
    /// How long requests in flight may take to end at shutdown.
    pub(crate) drain: Duration,
}

/// The HTTP server of a listener.
pub(crate) struct HttpServer {
    pub(crate) router: Router,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) options: ConnectionOptions,
    /// Number of open connections, for the metrics.
    pub(crate) connections: Gauge,
    /// Cancelled by the server when it shuts down, which ends the requests that wait.
    pub(crate) closing: CancellationToken,
}

impl HttpServer {
    /// Accepts connections until `shutdown` is cancelled. Then waits for requests in flight, within the drain time.
    pub(crate) async fn serve(self, listener: TcpListener, shutdown: &CancellationToken) {
        let server = Arc::new(self);
        let limit = ConnectionLimit::new(server.options.max_connections);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                // Drop the tasks of closed connections.
                Some(_) = connections.join_next() => {}
                (stream, peer, permit) = limit.next(&listener) => {
                    let client = Client { server: server.clone(), peer };
                    connections.spawn(client.serve(stream, permit));
                }
            }
        }
        // Accept no more connections, and end the requests that wait.
        drop(listener);
        server.closing.cancel();
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(server.options.drain, ended)
            .await
            .is_err()
        {
            tracing::warn!("requests in flight did not end in time; closing their connections");
        }
        connections.shutdown().await;
    }
}

/// The client of one connection.
struct Client {
    server: Arc<HttpServer>,
    peer: SocketAddr,
}

impl Client {
    async fn serve(self, stream: TcpStream, _permit: ConnectionPermit) {
        let HttpServer {
            tls,
            options,
            connections,
            closing,
            ..
        } = &*self.server;
        let _open = OpenConnection::new(connections.clone());
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let activity = Arc::new(ConnectionActivity::new());
        let stream = TimeoutStream::new(stream, activity.clone(), options.write_timeout);
        let Some(tls) = tls else {
            return self.serve_requests(stream, &activity).await;
        };
        let handshake = tls.acceptor().accept(stream);
        let accepted = tokio::select! {
            () = closing.cancelled() => return,
            accepted = tokio::time::timeout(options.head_timeout, handshake) => accepted,
        };
        match accepted {
            // Boxed, so that connections without TLS do not reserve memory for it.
            Ok(Ok(stream)) => Box::pin(self.serve_requests(stream, &activity)).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => {}
        }
    }

    /// Serves requests until the client disconnects, is idle for too long, or the server shuts down.
    async fn serve_requests<S>(&self, stream: S, activity: &Arc<ConnectionActivity>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|mut request: Request<Incoming>| {
            let active = activity.enter();
            request.extensions_mut().insert(Peer(self.peer));
            // No `poll_ready` is needed: routers are always ready.
            let answer = self.server.router.clone().call(request);
            async move {
                let response = answer
                    .await
                    .unwrap_or_else(|never: Infallible| match never {});
                Ok::<_, Infallible>(response.map(|body| CountedBody::new(body, active)))
            }
        });
        let server = self.protocol();
        let connection = server.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut is_closing = false;
        loop {
            let timeout = if is_closing {
                CLOSE_TIMEOUT
            } else {
                self.server.options.head_timeout
            };
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "a client's connection ended");
                    }
                    return;
                }
                () = self.server.closing.cancelled(), if !is_closing => {}
                () = activity.idle(timeout) => if is_closing { return },
            }
            connection.as_mut().graceful_shutdown();
            is_closing = true;
            activity.restart();
        }
    }

    fn protocol(&self) -> auto::Builder<TokioExecutor> {
        let mut server = auto::Builder::new(TokioExecutor::new());
        server
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.server.options.head_timeout)
            .max_buf_size(MAX_HEAD_BYTES as usize);
        server
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES)
            .initial_connection_window_size(FLOW_CONTROL_BYTES.0)
            .initial_stream_window_size(FLOW_CONTROL_BYTES.1);
        server
    }
}

/// Counts an open connection until it is dropped.
struct OpenConnection(Gauge);

impl OpenConnection {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        OpenConnection(gauge)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
