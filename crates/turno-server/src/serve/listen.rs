//! Clients: let in, served, and sent away at the end.

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

/// How many requests one connection of HTTP/2 may have under way: each may hold a body.
const MAX_STREAMS: u32 = 100;
/// The largest head of a request, in bytes. As much is kept for each connection as long as it is open, and twice as much if it
/// were any more.
const MAX_HEAD: u32 = 8 * 1024;
/// How much of bodies that nobody has read yet one connection of HTTP/2 may send, and each of its requests.
const WINDOWS: (u32, u32) = (1024 * 1024, 256 * 1024);
/// How long a client that has been told to go may take, if nothing of it is in flight.
const GOING: Duration = Duration::from_secs(1);

/// Where a request comes from; an extension of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Lets clients in until it is told to stop; then lets what is under way end, within a bound.
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
            // Whoever has gone is forgotten.
            Some(_) = connections.join_next() => {}
            (stream, peer, place) = room.next(&listener) => {
                let client = Client { app: app.clone(), router: router.clone(), peer };
                connections.spawn(client.attend(stream, tls.clone(), place));
            }
        }
    }
    // Nobody else is let in, and whoever waits is sent away.
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

/// One connection's other end.
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
            // Boxed: else whoever speaks without TLS would have to keep room for it.
            Ok(Ok(stream)) => Box::pin(self.talk(stream, &busy)).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client did not speak TLS as it should"),
            Err(_) => {}
        }
    }

    /// Answers, until the client goes, is silent for too long, or is sent away.
    async fn talk<S>(&self, stream: S, busy: &Arc<Busy>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|mut request: Request<Incoming>| {
            let counted = busy.enter();
            request.extensions_mut().insert(Peer(self.peer));
            // Routers are always ready.
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
