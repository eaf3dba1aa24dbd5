//! A server that runs, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turno::{Settings, Turno};
use turno_client::{Client, RemoteStore};
use turno_server::{Options, Server};

/// Long enough for a loaded machine; nothing waits for it when all is well.
pub const LONG: Duration = Duration::from_secs(60);

/// A server on a store of its own, in memory.
pub struct Running {
    pub address: SocketAddr,
    /// The store behind it.
    pub turno: Turno,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub async fn start_with(options: Options) -> Self {
        let turno = Turno::connect("sqlite::memory:").await.unwrap();
        let server = Server::new(turno.clone(), options);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            server
                .run(listener, stopped.cancelled_owned())
                .await
                .unwrap()
        });
        Running {
            address,
            turno,
            stop,
            task,
        }
    }

    pub fn client(&self) -> Client {
        client(self.address)
    }

    /// The library over HTTP.
    pub fn remote(&self) -> Turno {
        library(self.client())
    }

    /// What it has counted.
    pub async fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let ask = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(ask).await.unwrap();
        let mut outcome = String::new();
        stream.read_to_string(&mut outcome).await.unwrap();
        outcome
    }

    pub async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task)
            .await
            .unwrap()
            .unwrap();
    }
}

pub fn client(address: SocketAddr) -> Client {
    Client::new(&format!("http://{address}")).unwrap()
}

pub fn library(client: Client) -> Turno {
    Turno::with_store(Arc::new(RemoteStore::new(client)), Settings::default())
}
