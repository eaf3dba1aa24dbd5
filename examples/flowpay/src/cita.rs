//! A rendezvous: an operation pauses here, between its reads and its writes, if `--cita` is given.
//!
//! At this point another operation on the same loan would do harm. The demonstration and the tests extend it as long as they
//! need, so that their result is deterministic. Without `--cita`, this is a no-op.

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::fallo::Fallo;

/// Address of the process to notify.
#[derive(Debug, Clone, Default)]
pub struct Cita(pub Option<String>);

impl Cita {
    /// Connects to that process, and waits until it closes the connection.
    pub async fn esperar(&self) -> Result<(), Fallo> {
        if let Some(direccion) = &self.0 {
            let mut linea = TcpStream::connect(direccion).await?;
            linea.read_to_end(&mut Vec::new()).await?;
        }
        Ok(())
    }
}
