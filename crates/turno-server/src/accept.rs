//! Accepts connections, up to a limit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pause after the system has refused a connection, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Limit on the number of open connections.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

/// One connection's share of the limit. Dropping it makes room for the next connection.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Room {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Room(Arc::new(Semaphore::new(most)))
    }

    /// Accepts the next connection, once the limit allows it. Cancel-safe.
    pub(crate) async fn next(&self, listener: &TcpListener) -> (TcpStream, SocketAddr, Place) {
        let permit = self.0.clone().acquire_owned().await;
        let place = Place {
            _permit: permit.expect("nobody closes the semaphore"),
        };
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return (stream, peer, place),
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no client can be let in; it is tried again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Whether the error concerns one client only: it closed its connection before it was accepted.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
