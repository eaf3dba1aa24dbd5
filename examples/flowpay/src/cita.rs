//! A rendezvous: where an operation stands still between its reading and its writing, if somebody outside asks for it.
//!
//! That is the moment in which another operation on the same loan does harm. The demonstration and the tests make it last
//! as long as they need, so that what they show is certain and not luck. Without `--cita` nothing happens here.

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::fallo::Fallo;

/// The address of whoever wants to be told.
#[derive(Debug, Clone, Default)]
pub struct Cita(pub Option<String>);

impl Cita {
    /// Says that an operation has come here, and waits until the other side hangs up.
    pub async fn esperar(&self) -> Result<(), Fallo> {
        if let Some(direccion) = &self.0 {
            let mut linea = TcpStream::connect(direccion).await?;
            linea.read_to_end(&mut Vec::new()).await?;
        }
        Ok(())
    }
}
