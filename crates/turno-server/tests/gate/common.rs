//! A running gate, and a client of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Builder;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::once::http::{Counts, KeyFrom, Policy, Routes};
use turno_server::gate::{Gate, Options, Upstream};

use crate::service::{Body, whole};

/// Long enough for a busy machine. A test that succeeds does not wait for it.
pub const LONG: Duration = Duration::from_secs(60);

/// A running gate.
pub struct Running {
    pub address: SocketAddr,
    pub gate: Arc<Gate>,
    pub stop: CancellationToken,
    pub turno: Turno,
    task: JoinHandle<Counts>,
}

impl Running {
    pub async fn start(upstream: SocketAddr, routes: Routes) -> Self {
        let upstream = format!("http://{upstream}").parse().unwrap();
        Self::start_with(upstream, routes, Options::default()).await
    }

    pub async fn start_with(upstream: Upstream, routes: Routes, options: Options) -> Self {
        let turno = Turno::connect("sqlite::memory:").await.unwrap();
        Self::with(turno, upstream, routes, options).await
    }

    /// Starts one on an existing store.
    pub async fn start_on(turno: Turno, upstream: SocketAddr, routes: Routes) -> Self {
        let upstream = format!("http://{upstream}").parse().unwrap();
        Self::with(turno, upstream, routes, Options::default()).await
    }

    pub async fn with(turno: Turno, upstream: Upstream, routes: Routes, options: Options) -> Self {
        let gate = Arc::new(Gate::new(turno.clone(), upstream, routes, options));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (runs, stopped) = (gate.clone(), stop.clone());
        let task = tokio::spawn(async move { runs.run(listener, stopped.cancelled_owned()).await });
        Running {
            address,
            gate,
            stop,
            turno,
            task,
        }
    }

    /// Stops it, and waits for its end.
    pub async fn end(self) -> Counts {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task)
            .await
            .unwrap()
            .unwrap()
    }

    pub fn request(&self, path: &str) -> Builder {
        Request::builder().uri(format!("http://{}{path}", self.address))
    }

    /// Returns a POST request with a key.
    pub fn keyed(&self, path: &str, key: &str) -> Builder {
        let request = self.request(path).method("POST");
        request.header("idempotency-key", key)
    }

    pub async fn post(&self, path: &str, key: &str) -> TestResponse {
        send(self.keyed(path, key).body(whole("{}")).unwrap()).await
    }
}

pub fn client() -> Client<HttpConnector, Body> {
    Client::builder(TokioExecutor::new()).build_http()
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

pub async fn send(request: Request<Body>) -> TestResponse {
    read_response(client().request(request).await.unwrap()).await
}

pub async fn read_response<B>(response: http::Response<B>) -> TestResponse
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let (head, body) = response.into_parts();
    let body = tokio::time::timeout(LONG, body.collect()).await.unwrap();
    TestResponse {
        status: head.status,
        headers: head.headers,
        body: body.unwrap().to_bytes(),
    }
}

/// Returns one route with a policy: `/pagos`, by key.
pub fn pagos() -> Routes {
    Routes::new().add("/pagos", Policy::new("pagos")).unwrap()
}

pub fn by_content() -> Policy {
    Policy::new("certificacion")
        .key(KeyFrom::Content)
        .no_principal()
}
