//! Client of the web service.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::body::Body;
use axum::http::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use uuid::Uuid;

/// Header with the number of the calling instance.
pub const INSTANCE: &str = "x-instance";
/// Header with the number of the attempt.
pub const ATTEMPT: &str = "x-attempt";

/// Timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Client of the web service in one instance.
#[derive(Debug, Clone)]
pub struct WebServiceClient {
    client: Client<HttpConnector, Body>,
    url: String,
    instance: u32,
}

impl WebServiceClient {
    /// Creates a client. It connects at the first call.
    pub fn new(url: &str, instance: u32) -> Self {
        WebServiceClient {
            client: Client::builder(TokioExecutor::new()).build_http(),
            url: url.to_owned(),
            instance,
        }
    }

    /// Sends a presentation.
    ///
    /// # Errors
    /// Returns an error if the service rejects it or does not respond. In the latter case, it is unknown whether the service
    /// has received it.
    pub async fn send(&self, presentation: Uuid, attempt: u32) -> Result<()> {
        let request = Request::post(format!("{}/presentations/{presentation}", self.url))
            .header(INSTANCE, self.instance)
            .header(ATTEMPT, attempt)
            .body(Body::empty())?;
        let answer = tokio::time::timeout(TIMEOUT, self.client.request(request))
            .await
            .context("the web service did not answer in time")??;
        let status = answer.status();
        ensure!(status.is_success(), "the web service answered {status}");
        Ok(())
    }
}
