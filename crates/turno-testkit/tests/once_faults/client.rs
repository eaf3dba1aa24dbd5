//! A client of web servers, and the responses that it gets.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::LONG;
use crate::web::Web;

#[derive(Clone)]
pub struct Client(hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>);

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    pub uri: &'static str,
    pub key: String,
    pub body: &'static str,
    pub principal: &'static str,
}

/// Returns a payment.
pub fn pay(key: impl Into<String>) -> Ask {
    Ask {
        uri: "/pagos",
        key: key.into(),
        body: r#"{"folio": 7}"#,
        principal: "ana",
    }
}

/// Returns a payment whose first handler is paused before it pays.
pub fn held_before(key: impl Into<String>) -> Ask {
    Ask {
        uri: "/pagos?hold=before",
        ..pay(key)
    }
}

/// Returns a payment whose first handler is paused after it has paid, and before it responds.
pub fn held_after(key: impl Into<String>) -> Ask {
    Ask {
        uri: "/pagos?hold=after",
        ..pay(key)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Response {
    pub fn is_replayed(&self) -> bool {
        self.headers.contains_key("idempotency-replayed")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the status, and the code of a problem.
    pub fn problem(&self) -> (u16, String) {
        let code = self.json()["code"].as_str().map(str::to_owned);
        (self.status, code.unwrap_or_else(|| panic!("{self:?}")))
    }

    /// Returns which process has paid, and in which attempt.
    #[track_caller]
    pub fn paid(&self) -> (i64, i64) {
        assert_eq!(self.status, 200, "{self:?}");
        let answer = self.json();
        let number = |name| answer[name].as_i64().unwrap_or_else(|| panic!("{self:?}"));
        (number("by"), number("attempt"))
    }
}

/// Returns a problem in the form of [`Response::problem`].
pub fn problem(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

impl Client {
    pub fn new() -> Self {
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        Client(client.build(HttpConnector::new()))
    }

    /// Returns the response, or `None` if it does not arrive in time or the connection breaks.
    pub async fn ask_within(&self, port: u16, ask: &Ask, timeout: Duration) -> Option<Response> {
        let request = Request::post(format!("http://127.0.0.1:{port}{}", ask.uri))
            .header("idempotency-key", &ask.key)
            .header("content-type", "application/json")
            .header("authorization", ask.principal)
            .body(Full::from(ask.body))
            .unwrap();
        let answer = async {
            let (head, body) = self.0.request(request).await.ok()?.into_parts();
            Some(Response {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.collect().await.ok()?.to_bytes(),
            })
        };
        tokio::time::timeout(timeout, answer).await.ok().flatten()
    }

    pub async fn ask(&self, web: &Web, ask: &Ask) -> Response {
        let response = self.ask_within(web.port(), ask, LONG).await;
        response.expect("a server that runs answers")
    }

    /// Sends a request in a spawned task.
    pub fn asking(&self, web: &Web, ask: &Ask) -> tokio::task::JoinHandle<Option<Response>> {
        let (client, port, ask) = (self.clone(), web.port(), ask.clone());
        tokio::spawn(async move { client.ask_within(port, &ask, LONG).await })
    }
}
