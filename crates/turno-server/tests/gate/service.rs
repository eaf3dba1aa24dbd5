//! A configurable service behind the gate.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::{CancellationToken, DropGuard};

pub type Body = BoxBody<Bytes, hyper::Error>;

/// Returns a complete body.
pub fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never: Infallible| match never {})
        .boxed()
}

/// A service that calls a function for each request. It ends when dropped.
pub struct Service {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _stop: DropGuard,
}

impl Service {
    pub async fn start<F, R>(answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(stopped.clone().run_until_cancelled_owned(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let answer = answer.clone();
                let service = service_fn(move |request| {
                    let answered = answer(request);
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                let stopped = stopped.clone();
                tokio::spawn(stopped.run_until_cancelled_owned(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    // Some tests break connections on purpose.
                    let _ = server
                        .serve_connection_with_upgrades(TokioIo::new(stream), service)
                        .await;
                }));
            }
        }));
        Service {
            address,
            connections,
            _stop: stop.drop_guard(),
        }
    }

    /// Starts one that responds with 200 and the number of the request, and reports each request.
    pub async fn counting() -> (Self, UnboundedReceiver<Request<Bytes>>) {
        let (heard, hears) = mpsc::unbounded_channel();
        let number = Arc::new(AtomicUsize::new(0));
        let service = Service::start(move |request| {
            let (heard, number) = (heard.clone(), number.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let number = number.fetch_add(1, Ordering::Relaxed) + 1;
                // The receiver is gone if the test needs no more requests.
                let _ = heard.send(Request::from_parts(head, body));
                let mut response = Response::new(whole(format!("{{\"n\": {number}}}")));
                let kind = "application/json".parse().unwrap();
                response.headers_mut().insert("content-type", kind);
                response
            }
        })
        .await;
        (service, hears)
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}
