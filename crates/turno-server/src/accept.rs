//! Letting clients in, so many at a time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long to wait when the system gives no connection: it has no file descriptors left, say.
const PAUSE: Duration = Duration::from_millis(100);

/// Room for so many clients.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

/// The room that one client takes, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Room {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Room(Arc::new(Semaphore::new(most)))
    }

    /// The next client, once there is room for it. Cancel-safe.
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

/// Whether one client went away before it was let in, which is nobody else's concern.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
