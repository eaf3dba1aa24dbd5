//! Tunnels: pairs of connections that were upgraded from HTTP, for example to WebSocket.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::clients::Origin;

/// Copies bytes in both directions until one side ends or the gate shuts down.
pub(super) async fn carry(client: OnUpgrade, service: OnUpgrade, origin: Arc<Origin>) {
    let carried = async {
        let (client, service) = tokio::try_join!(client, service)?;
        let (mut client, mut service) = (TokioIo::new(client), TokioIo::new(service));
        tokio::io::copy_bidirectional(&mut client, &mut service).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    tokio::select! {
        () = origin.closing.cancelled() => {}
        carried = carried => {
            if let Err(error) = carried {
                tracing::debug!(%error, "a tunnel broke");
            }
        }
    }
}
