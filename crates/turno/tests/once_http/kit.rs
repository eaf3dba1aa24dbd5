//! A router behind the layer, and the responses to its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Builder;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::Semaphore;
use tower::ServiceExt;
use turno::Turno;
use turno::once::http::{Counts, OnceLayer, Policy};
use turno::once::{OnceList, OnceState, OnceView};
use turno_testkit::eventually_async;

use crate::LONG;

/// One instance of an application: a layer, and a handler behind it.
#[derive(Clone)]
pub struct Site {
    pub turno: Turno,
    layer: OnceLayer,
    router: Router,
    runs: Arc<AtomicU32>,
}

impl Site {
    /// Creates one with a separate store.
    pub async fn new<F, R>(
        policy: Policy,
        handler: impl Fn(u32, Request) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send,
        R: IntoResponse,
    {
        Self::on("sqlite::memory:", policy, handler).await
    }

    /// Creates one on a store. The handler gets the number of its run.
    pub async fn on<F, R>(
        url: &str,
        policy: Policy,
        handler: impl Fn(u32, Request) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send,
        R: IntoResponse,
    {
        let turno = Turno::connect(url).await.unwrap();
        Self::with(OnceLayer::new(turno.clone(), policy), turno, handler)
    }

    pub fn with<F, R>(
        layer: OnceLayer,
        turno: Turno,
        handler: impl Fn(u32, Request) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send,
        R: IntoResponse,
    {
        let runs: Arc<AtomicU32> = Arc::default();
        let counted = runs.clone();
        let handle = move |request: Request| {
            let run = counted.fetch_add(1, Ordering::Relaxed) + 1;
            handler(run, request)
        };
        let router = Router::new().fallback(handle).layer(layer.clone());
        Site {
            turno,
            layer,
            router,
            runs,
        }
    }

    /// Returns the number of runs of the handler.
    pub fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }

    pub fn counts(&self) -> Counts {
        self.layer.counts()
    }

    /// Returns the response with an unread body.
    pub async fn call(&self, request: Request) -> Response {
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    pub async fn send(&self, request: Request) -> TestResponse {
        TestResponse::from(self.call(request).await).await
    }

    /// Sends a request in a spawned task.
    pub fn sending(&self, request: Request) -> tokio::task::JoinHandle<TestResponse> {
        let site = self.clone();
        tokio::spawn(async move { site.send(request).await })
    }

    /// Waits until the only key in the store has this state.
    pub async fn await_state(&self, state: OnceState) -> OnceView {
        eventually_async(LONG, state.as_str(), async || {
            let ask = OnceList {
                limit: 2,
                ..OnceList::default()
            };
            let known = self.turno.once_list(ask).await.unwrap();
            assert!(known.len() <= 1, "{known:?}");
            known.into_iter().find(|view| view.state == state)
        })
        .await
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl TestResponse {
    pub async fn from(response: Response) -> Self {
        let (head, body) = response.into_parts();
        TestResponse {
            status: head.status,
            headers: head.headers,
            body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
        }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// Returns the status and the code of a problem.
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        let code = problem["code"].as_str().unwrap();
        (self.status.as_u16(), code.to_owned())
    }

    /// Checks that this is the handler's own response.
    #[track_caller]
    pub fn assert_fresh(&self, text: &str) {
        assert_eq!((self.status, self.text()), (StatusCode::OK, text));
        assert!(!self.is_replayed(), "{self:?}");
    }

    #[track_caller]
    pub fn assert_replayed(&self, text: &str) {
        assert_eq!((self.status, self.text()), (StatusCode::OK, text));
        assert!(self.is_replayed(), "{self:?}");
    }
}

/// Returns a problem in the form of [`TestResponse::problem`].
pub fn problem(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// Returns a JSON request with a key.
pub fn post(key: &str) -> Builder {
    Request::post("/pagos")
        .header("idempotency-key", key)
        .header("content-type", "application/json")
}

/// Returns the default request.
pub fn paying(key: &str) -> Request {
    post(key).body(Body::from(r#"{"amount": 100}"#)).unwrap()
}

/// Handler that returns the number of its run.
pub async fn run_number(run: u32, _: Request) -> String {
    format!("run {run}")
}

/// Handlers that report their begin, and then wait for a permit to continue.
#[derive(Clone)]
pub struct Held {
    begun: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Held {
    pub fn new() -> Self {
        Held {
            begun: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(0)),
        }
    }

    /// Called in the handler.
    pub async fn hold(&self) {
        self.begun.add_permits(1);
        self.go.acquire().await.unwrap().forget();
    }

    /// Waits until one more handler has begun.
    pub async fn begun(&self) {
        let begun = tokio::time::timeout(LONG, self.begun.acquire()).await;
        begun.expect("a handler begins").unwrap().forget();
    }

    /// Lets one more handler continue.
    pub fn go(&self) {
        self.go.add_permits(1);
    }
}
