//! A server that runs, and a client of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Builder;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno_server::serve::{Options, Server};
use turno_testkit::{PostgresServer, eventually_async};

/// Long enough for a loaded machine; nothing waits for it when all is well.
pub const LONG: Duration = Duration::from_secs(60);

/// One server on each store.
pub async fn both() -> [Running; 2] {
    [Running::start().await, Running::start_postgres().await]
}

/// A server that runs.
pub struct Running {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    pub turno: Turno,
    client: Client<HttpConnector, Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Running {
    /// On a store of its own, in memory.
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub async fn start_with(options: Options) -> Self {
        let turno = Turno::connect("sqlite::memory:").await.unwrap();
        Self::on(turno, options).await
    }

    /// On a database of its own.
    pub async fn start_postgres() -> Self {
        let url = PostgresServer::shared().create_database();
        Self::on(Turno::connect(&url).await.unwrap(), Options::default()).await
    }

    /// Over a store that is there already.
    pub async fn on(turno: Turno, options: Options) -> Self {
        let server = Arc::new(Server::new(turno.clone(), options));
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
            stop,
            turno,
            client: Client::builder(TokioExecutor::new()).build_http(),
            task,
        }
    }

    /// Until somebody waits in the store for a lock, an item or an answer.
    pub async fn until_somebody_waits(&self) {
        eventually_async(LONG, "somebody who waits", async || {
            self.turno.store().wakers().any().then_some(())
        })
        .await;
    }

    /// Until nobody does any more.
    pub async fn until_nobody_waits(&self) {
        eventually_async(LONG, "nobody who waits", async || {
            (!self.turno.store().wakers().any()).then_some(())
        })
        .await;
    }

    /// Tells it to stop, and waits until it has.
    pub async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task)
            .await
            .unwrap()
            .unwrap();
    }

    pub fn request(&self, method: &str, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
    }

    pub async fn get(&self, path: &str) -> Told {
        self.send(self.request("GET", path), "").await
    }

    pub async fn delete(&self, path: &str) -> Told {
        self.send(self.request("DELETE", path), "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Told {
        self.json("POST", path, body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Told {
        self.json("PUT", path, body).await
    }

    pub async fn json(&self, method: &str, path: &str, body: Value) -> Told {
        let request = self
            .request(method, path)
            .header("content-type", "application/json");
        self.send(request, body.to_string()).await
    }

    /// The beginning of an answer.
    pub async fn begin(&self, request: Builder, body: impl Into<Bytes>) -> Response<Incoming> {
        let request = request.body(Full::new(body.into())).unwrap();
        let response = self.client.request(request);
        tokio::time::timeout(LONG, response).await.unwrap().unwrap()
    }

    pub async fn send(&self, request: Builder, body: impl Into<Bytes>) -> Told {
        let (head, body) = self.begin(request, body).await.into_parts();
        let body = tokio::time::timeout(LONG, body.collect()).await.unwrap();
        Told {
            status: head.status,
            headers: head.headers,
            body: body.unwrap().to_bytes(),
        }
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Told {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Told {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Expects this status, and answers the body.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.body.is_empty() {
            return Value::Null;
        }
        self.json()
    }

    /// Expects a problem with this status and code.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let told = self.json();
        assert_eq!(
            (&told["code"], &told["status"]),
            (&code.into(), &status.into())
        );
        told
    }
}
