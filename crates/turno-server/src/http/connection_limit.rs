//! Accepts connections, up to a limit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pause after the system has refused a connection, for example for lack of file descriptors.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Limit on the number of open connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit(Arc<Semaphore>);

/// One connection's share of the limit. Dropping it makes room for the next connection.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimit {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        ConnectionLimit(Arc::new(Semaphore::new(max)))
    }

    /// Accepts the next connection, once the limit allows it. Cancel-safe.
    pub(crate) async fn next(
        &self,
        listener: &TcpListener,
    ) -> (TcpStream, SocketAddr, ConnectionPermit) {
        let permit = self.0.clone().acquire_owned().await;
        let permit = ConnectionPermit {
            _permit: permit.expect("the semaphore is never closed"),
        };
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return (stream, peer, permit),
                Err(error) if is_client_error(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "could not accept a connection; retrying");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}

/// Whether the error concerns one client only: it closed its connection before it was accepted.
fn is_client_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
