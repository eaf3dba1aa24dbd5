//! Calls the web service.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::body::Body;
use axum::http::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use uuid::Uuid;

/// Says which instance calls.
pub const INSTANCE: &str = "x-instance";
/// Says which attempt it is.
pub const ATTEMPT: &str = "x-attempt";

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One instance's way to the web service.
#[derive(Debug, Clone)]
pub struct WebServiceClient {
    client: Client<HttpConnector, Body>,
    url: String,
    instance: u32,
}

impl WebServiceClient {
    /// Nothing is connected before the first call.
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
    /// If the service refuses it, or does not answer. It may have it then, or not: that is what cannot be known.
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
