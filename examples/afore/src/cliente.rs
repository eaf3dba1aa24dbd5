//! A small HTTP client.

use anyhow::{Context, Result};
use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// HTTP client with a connection pool. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cliente(hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>);

impl Cliente {
    /// Creates a client.
    pub fn nuevo() -> Self {
        let cliente = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        Self(cliente.build_http())
    }

    /// Sends a POST request with a JSON body and returns the status and the body.
    ///
    /// # Errors
    /// Returns an error if the server is unreachable.
    pub async fn post(&self, url: &str, json: impl Into<Bytes>) -> Result<(u16, Bytes)> {
        let request = Request::post(url).header("content-type", "application/json");
        self.pedir(request.body(Full::new(json.into()))?).await
    }

    /// # Errors
    /// Returns an error if the server is unreachable.
    pub async fn get(&self, url: &str) -> Result<(u16, Bytes)> {
        self.pedir(Request::get(url).body(Full::default())?).await
    }

    /// # Errors
    /// Returns an error if the server is unreachable.
    pub async fn pedir(&self, request: Request<Full<Bytes>>) -> Result<(u16, Bytes)> {
        let respuesta = self.pedir_entera(request).await?;
        Ok((respuesta.status().as_u16(), respuesta.into_body()))
    }

    /// Returns the response with its headers.
    ///
    /// # Errors
    /// Returns an error if the server is unreachable.
    pub async fn pedir_entera(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>> {
        let url = request.uri().to_string();
        let (head, body) = self.0.request(request).await.context(url)?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}
