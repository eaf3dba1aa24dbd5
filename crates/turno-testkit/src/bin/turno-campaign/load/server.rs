//! A server, and the library over HTTP.

use std::sync::Arc;

use anyhow::Result;
use tokio::net::TcpListener;
use turno::{Settings, Turno};
use turno_client::{Client, RemoteStore};
use turno_server::{Options, Server};

use super::{Load, pause};

/// Serves until the load stops. A server that was killed may have its address for another moment.
pub async fn serve(load: Load, address: &str) -> Result<()> {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => pause().await,
        }
    };
    let server = Server::new(load.turno, Options::default());
    server.run(listener, load.stop.cancelled_owned()).await?;
    Ok(())
}

/// The library on a server at this address.
pub fn remote(address: &str) -> Result<Turno> {
    let client = Client::new(&format!("http://{address}"))?;
    let store = Arc::new(RemoteStore::new(client));
    Ok(Turno::with_store(store, Settings::default()))
}
