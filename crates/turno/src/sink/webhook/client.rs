//! HTTP client of one webhook.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

use super::Webhook;
use super::guard::Guarded;
use crate::sink::tls;

/// Timeout of a connection attempt: shorter than that of a request, so that the two can be distinguished.
const CONNECT: Duration = Duration::from_secs(5);

/// Builds the client, or returns why that failed.
pub(super) fn build(webhook: &Webhook) -> Result<Client, String> {
    let tls = match webhook.url.scheme() {
        "http" => tls::none(),
        _ => tls::client(webhook.authorities.as_deref()),
    };
    Client::builder()
        .user_agent(concat!("turno/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        // A proxy would resolve names itself, and could reach addresses that are not allowed.
        .no_proxy()
        .dns_resolver(Arc::new(Guarded(webhook.reach)))
        .connect_timeout(CONNECT.min(webhook.timeout / 2))
        .timeout(webhook.timeout)
        .pool_max_idle_per_host(webhook.concurrency)
        .tls_backend_preconfigured(tls.map_err(|reason| format!("cannot be called: {reason}"))?)
        .build()
        .map_err(|error| format!("cannot be called: {error}"))
}
