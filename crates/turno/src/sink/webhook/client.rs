//! The client of one webhook.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

use super::Webhook;
use super::guard::Guarded;
use crate::sink::tls;

/// How long it may take to connect: less than a request, so that the two can be told apart.
const CONNECT: Duration = Duration::from_secs(5);

/// Builds the client, or says why it cannot be built.
pub(super) fn build(webhook: &Webhook) -> Result<Client, String> {
    let tls = match webhook.url.scheme() {
        "http" => tls::none(),
        _ => tls::client(webhook.authorities.as_deref()),
    };
    Client::builder()
        .user_agent(concat!("turno/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        // A proxy would resolve names by itself, and reach what must not be reached.
        .no_proxy()
        .dns_resolver(Arc::new(Guarded(webhook.reach)))
        .connect_timeout(CONNECT.min(webhook.timeout / 2))
        .timeout(webhook.timeout)
        .pool_max_idle_per_host(webhook.concurrency)
        .tls_backend_preconfigured(tls.map_err(|reason| format!("cannot be called: {reason}"))?)
        .build()
        .map_err(|error| format!("cannot be called: {error}"))
}
