//! HTTP requests.

use anyhow::{Result, ensure};
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// A client, which keeps its connections open.
pub type Client = legacy::Client<HttpConnector, Full<Bytes>>;

pub fn client() -> Client {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    legacy::Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends a single request, with its own connection.
pub async fn post(port: u16, path: &str, body: &Value) -> Result<Value> {
    post_with(&client(), port, path, body).await
}

pub async fn post_with(client: &Client, port: u16, path: &str, body: &Value) -> Result<Value> {
    let request = hyper::Request::post(format!("http://127.0.0.1:{port}{path}"))
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()))?;
    let response = client.request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "{status}: {body:?}");
    Ok(serde_json::from_slice(&body)?)
}
