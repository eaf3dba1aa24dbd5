//! Clients: let in, served, and sent away at the end.

use std::sync::Arc;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::App;

/// Lets clients in until it is told to stop; then lets what is under way end, within a bound.
pub(super) async fn serve(
    app: &Arc<App>,
    router: Router,
    listener: TcpListener,
    shutdown: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start(app, &router, stream, &graceful, &mut connections);
            }
        }
    }
    drop(listener);
    app.closing.cancel();
    if tokio::time::timeout(app.options.drain, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("work in flight did not end in time, and is cut off");
    }
    connections.shutdown().await;
}

fn start(
    app: &Arc<App>,
    router: &Router,
    stream: TcpStream,
    graceful: &GracefulShutdown,
    connections: &mut JoinSet<()>,
) {
    let service = TowerToHyperService::new(router.clone());
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(app.options.head_timeout);
    server.http2().timer(TokioTimer::new());
    let connection = server
        .serve_connection_with_upgrades(TokioIo::new(stream), service)
        .into_owned();
    let watched = graceful.watch(connection);
    connections.spawn(async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "a client's connection ended");
        }
    });
}
