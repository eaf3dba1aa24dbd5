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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use super::App;
use super::patient::{Busy, Counted, Patient};
use super::tls::Tls;
use crate::accept::{Place, Room};

/// Maximum number of concurrent requests per HTTP/2 connection: each may hold a body in memory.
const MAX_STREAMS: u32 = 100;
/// Maximum size of a request's head, in bytes. Each open connection keeps a buffer of this size; the next larger limit would
/// double it.
const MAX_HEAD: u32 = 8 * 1024;
/// HTTP/2 flow-control windows in bytes: unread body data per connection and per request.
const WINDOWS: (u32, u32) = (1024 * 1024, 256 * 1024);
/// How long an idle connection may take to close after a graceful shutdown was requested.
const GOING: Duration = Duration::from_secs(1);

/// Address of the client. An extension of each request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Accepts connections until `shutdown` is cancelled. Then waits for requests in flight, within the drain time.
pub(super) async fn serve(
    app: &Arc<App>,
    router: Router,
    tls: Option<Arc<Tls>>,
    listener: TcpListener,
    shutdown: &CancellationToken,
) {
    let room = Room::new(app.options.max_connections);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            // Drop the tasks of closed connections.
            Some(_) = connections.join_next() => {}
            (stream, peer, place) = room.next(&listener) => {
                let client = Client { app: app.clone(), router: router.clone(), peer };
                connections.spawn(client.attend(stream, tls.clone(), place));
            }
        }
    }
    // Accept no more connections, and end the requests that wait.
    drop(listener);
    app.closing.cancel();
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(app.options.drain, ended)
        .await
        .is_err()
    {
        tracing::warn!("work in flight did not end in time, and is cut off");
    }
    connections.shutdown().await;
}

/// The client of one connection.
struct Client {
    app: Arc<App>,
    router: Router,
    peer: SocketAddr,
}

impl Client {
    async fn attend(self, stream: TcpStream, tls: Option<Arc<Tls>>, _place: Place) {
        let _connected = self.app.metrics.connected();
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let busy = Arc::new(Busy::new());
        let stream = Patient::new(stream, busy.clone(), self.app.options.write_timeout);
        let Some(tls) = tls else {
            return self.talk(stream, &busy).await;
        };
        let greeted = tokio::select! {
            () = self.app.closing.cancelled() => return,
            greeted = tokio::time::timeout(self.app.options.head_timeout, tls.acceptor().accept(stream)) => greeted,
        };
        match greeted {
            // Boxed, so that connections without TLS do not reserve memory for it.
            Ok(Ok(stream)) => Box::pin(self.talk(stream, &busy)).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client did not speak TLS as it should"),
            Err(_) => {}
        }
    }

    /// Serves requests until the client disconnects, is idle for too long, or the server shuts down.
    async fn talk<S>(&self, stream: S, busy: &Arc<Busy>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|mut request: Request<Incoming>| {
            let counted = busy.enter();
            request.extensions_mut().insert(Peer(self.peer));
            // No `poll_ready` is needed: routers are always ready.
            let answer = self.router.clone().call(request);
            async move {
                let response = answer
                    .await
                    .unwrap_or_else(|never: Infallible| match never {});
                Ok::<_, Infallible>(response.map(|body| Counted::new(body, counted)))
            }
        });
        let server = self.protocol();
        let connection = server.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut told = false;
        loop {
            let patience = if told {
                GOING
            } else {
                self.app.options.head_timeout
            };
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "a client's connection ended");
                    }
                    return;
                }
                () = self.app.closing.cancelled(), if !told => {}
                () = busy.idle(patience) => if told { return },
            }
            connection.as_mut().graceful_shutdown();
            told = true;
            busy.restart();
        }
    }

    fn protocol(&self) -> auto::Builder<TokioExecutor> {
        let mut server = auto::Builder::new(TokioExecutor::new());
        server
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.app.options.head_timeout)
            .max_buf_size(MAX_HEAD as usize);
        server
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD)
            .initial_connection_window_size(WINDOWS.0)
            .initial_stream_window_size(WINDOWS.1);
        server
    }
}
