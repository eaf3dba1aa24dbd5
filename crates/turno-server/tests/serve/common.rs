//! A running server, and a client of it.

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
use turno_server::{Options, Server};
use turno_testkit::{eventually_async, migrated_database};

/// Long enough for a busy machine. A test that succeeds does not wait for it.
pub const LONG: Duration = Duration::from_secs(60);

/// Starts one server per store.
pub async fn both() -> [Running; 2] {
    [Running::start().await, Running::start_postgres().await]
}

/// A running server.
pub struct Running {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    pub turno: Turno,
    client: Client<HttpConnector, Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts one with a store in memory.
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub async fn start_with(options: Options) -> Self {
        let turno = Turno::connect("sqlite::memory:").await.unwrap();
        Self::on(turno, options).await
    }

    /// Starts one with a new database.
    pub async fn start_postgres() -> Self {
        let url = migrated_database();
        Self::on(Turno::connect(&url).await.unwrap(), Options::default()).await
    }

    /// Starts one on an existing store.
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

    /// Waits until a caller waits in the store for a lock, an item or an answer.
    pub async fn until_a_caller_waits(&self) {
        eventually_async(LONG, "a waiting caller", async || {
            self.turno.store().wakers().any().then_some(())
        })
        .await;
    }

    /// Waits until no caller waits any more.
    pub async fn until_no_caller_waits(&self) {
        eventually_async(LONG, "no waiting caller", async || {
            (!self.turno.store().wakers().any()).then_some(())
        })
        .await;
    }

    /// Stops it, and waits for its end.
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

    pub async fn get(&self, path: &str) -> TestResponse {
        self.send(self.request("GET", path), "").await
    }

    pub async fn delete(&self, path: &str) -> TestResponse {
        self.send(self.request("DELETE", path), "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.json("POST", path, body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> TestResponse {
        self.json("PUT", path, body).await
    }

    pub async fn json(&self, method: &str, path: &str, body: Value) -> TestResponse {
        let request = self
            .request(method, path)
            .header("content-type", "application/json");
        self.send(request, body.to_string()).await
    }

    /// Returns a response with an unread body.
    pub async fn begin(&self, request: Builder, body: impl Into<Bytes>) -> Response<Incoming> {
        let request = request.body(Full::new(body.into())).unwrap();
        let response = self.client.request(request);
        tokio::time::timeout(LONG, response).await.unwrap().unwrap()
    }

    pub async fn send(&self, request: Builder, body: impl Into<Bytes>) -> TestResponse {
        let (head, body) = self.begin(request, body).await.into_parts();
        let body = tokio::time::timeout(LONG, body.collect()).await.unwrap();
        TestResponse {
            status: head.status,
            headers: head.headers,
            body: body.unwrap().to_bytes(),
        }
    }
}

/// A complete response.
#[derive(Debug)]
pub struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl TestResponse {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Expects this status, and returns the body.
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
        let problem = self.json();
        assert_eq!(
            (&problem["code"], &problem["status"]),
            (&code.into(), &status.into())
        );
        problem
    }
}
