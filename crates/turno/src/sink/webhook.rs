//! Sink that sends each event to a web address, as a signed POST request.

mod answer;
mod client;
mod envelope;
mod guard;
mod signature;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use reqwest::{Client, Url};

use self::envelope::Envelope;
use self::guard::Reach;
use self::signature::Signer;
use super::{Outage, Outgoing, PublishResult, Sink};
use crate::clock;
use crate::error::{Error, Result};

/// Default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Default number of concurrent requests.
const CONCURRENCY: usize = 16;

/// Posts events to a web address, as [CloudEvents] 1.0 signed according to [Standard Webhooks].
///
/// ```no_run
/// # fn main() -> turno::Result<()> {
/// use turno::sink::Webhook;
///
/// let sink = Webhook::new("https://shop.example/hooks/turno")?
///     .secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?
///     .source("https://tickets.example");
/// # Ok(()) }
/// ```
///
/// `Idempotency-Key` and `webhook-id` are the event's id. The event's own headers are sent as `x-event-…`. A possible
/// duplicate has the header [`x-possible-duplicate`](super::POSSIBLE_DUPLICATE). Events of one ordering key are posted one
/// after the other, others concurrently.
///
/// | response | result |
/// |---|---|
/// | 2xx | sent |
/// | 408, 425, 429, 502, 503, 504, no response | an outage; `Retry-After` is honoured, up to an hour |
/// | any other, including redirects | refused |
///
/// Redirects are not followed, because only the configured address was checked. Addresses of the machine itself and of
/// private networks are not called, whatever a name resolves to, unless [allowed](Webhook::allow_private). Proxies are not
/// used, because they would resolve names themselves.
///
/// [CloudEvents]: https://cloudevents.io
/// [Standard Webhooks]: https://www.standardwebhooks.com
#[must_use = "events go to it through a relay"]
pub struct Webhook {
    url: Url,
    signer: Signer,
    source: String,
    mode: Mode,
    reach: Reach,
    authorities: Option<String>,
    timeout: Duration,
    concurrency: usize,
    client: OnceLock<Result<Client, String>>,
    unsigned: Once,
}

/// Where the attributes of an event are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// In the body, with the payload. This is the default, because the signature covers the body and so all of the event.
    Structured,
    /// In headers; the body is only the payload.
    Binary,
}

impl Webhook {
    /// Creates a sink at `https://…` or `http://…`. It connects on first use.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid. The message does not contain it.
    pub fn new(url: &str) -> Result<Self> {
        let wrong = |reason: &str| {
            Error::invalid(
                "url",
                format!("the webhook's URL cannot be used: {reason}. Write https://host/path"),
            )
        };
        let url = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with https:// or http://"));
        }
        Ok(Webhook {
            url,
            signer: Signer::default(),
            source: "turno".to_owned(),
            mode: Mode::Structured,
            reach: Reach::Public,
            authorities: None,
            timeout: TIMEOUT,
            concurrency: CONCURRENCY,
            client: OnceLock::new(),
            unsigned: Once::new(),
        })
    }

    /// Signs requests with this secret: `whsec_` and base64 of 24 to 64 random bytes. If called twice, requests have two
    /// signatures, so that a receiver can change from one secret to the other.
    ///
    /// # Errors
    /// Returns an error if the secret is invalid. The message does not contain it.
    pub fn secret(mut self, secret: &str) -> Result<Self> {
        self.signer.add(secret)?;
        Ok(self)
    }

    /// Sets the `source` of CloudEvents: the emitter, as a URI. Default: `turno`.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// Sends the attributes of an event in headers (`ce-id`, `ce-type`…), and only the payload in the body. The
    /// signature does not cover headers.
    pub fn binary(mut self) -> Self {
        self.mode = Mode::Binary;
        self
    }

    /// Sets whether loopback, private, link-local and other addresses that are not public may be called. Default: false.
    /// If true, a user who can choose the URL can reach whatever this machine can reach.
    pub fn allow_private(mut self, allow: bool) -> Self {
        self.reach = if allow { Reach::All } else { Reach::Public };
        self
    }

    /// Sets CA certificates in PEM that `https://` trusts in addition to those of the system. Default: none.
    pub fn authorities(mut self, pem: impl Into<String>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Sets the timeout of a request, including its response. Default: 10 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of concurrent requests. Default: 16.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Returns the address without its path, which is often a secret itself.
    fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    fn outage(&self, reason: &str) -> Outage {
        Outage::new(format!("the webhook at {} {reason}", self.origin()))
    }

    fn client(&self) -> Result<&Client, Outage> {
        let built = self.client.get_or_init(|| client::build(self));
        built.as_ref().map_err(|reason| self.outage(reason))
    }

    /// Sends one event as one request.
    async fn post(&self, client: &Client, event: &Outgoing) -> PublishResult {
        let envelope = match Envelope::new(self, event) {
            Ok(envelope) => envelope,
            Err(reason) => return PublishResult::Refused(reason),
        };
        let headers = match envelope.headers(&self.signer, clock::machine()) {
            Ok(headers) => headers,
            Err(reason) => return PublishResult::Refused(reason),
        };
        let request = client
            .post(self.url.clone())
            .headers(headers)
            .body(envelope.into_body());
        match request.send().await {
            Ok(response) => answer::result(self, response).await,
            Err(error) => answer::no_answer(self, &error),
        }
    }
}

#[async_trait]
impl Sink for Webhook {
    fn name(&self) -> String {
        format!("webhook at {}", self.origin())
    }

    /// Connects without a request: only a published event shows whether the destination accepts events.
    async fn ready(&self) -> Result<(), Outage> {
        self.client()?;
        if self.signer.is_empty() {
            self.unsigned.call_once(|| {
                tracing::warn!(
                    sink = self.name(),
                    "requests are not signed, because no secret is given: the receiver cannot know who sent them"
                );
            });
        }
        let connected = guard::connect(&self.url, self.reach);
        match tokio::time::timeout(self.timeout, connected).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(self.outage(&format!("cannot be reached: {reason}"))),
            Err(_) => Err(self.outage(&format!("does not answer within {:?}", self.timeout))),
        }
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let client = match self.client().and_then(|client| {
            guard::check_literal(&self.url, self.reach).map_err(|why| self.outage(&why))?;
            Ok(client)
        }) {
            Ok(client) => client,
            Err(outage) => return vec![PublishResult::Unsent(outage); events.len()],
        };
        // After the first outage, no more events are posted: all of them would run into the timeout.
        let down = Mutex::new(None::<Outage>);
        let known = || down.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let post_group = |group: Vec<usize>| {
            let (down, known) = (&down, &known);
            async move {
                let mut done = Vec::with_capacity(group.len());
                for place in group {
                    let result = match known() {
                        Some(outage) => PublishResult::Unsent(outage),
                        None => self.post(client, &events[place]).await,
                    };
                    if let PublishResult::Unsent(outage) | PublishResult::Doubtful(outage) = &result
                    {
                        let mut down = down.lock().unwrap_or_else(PoisonError::into_inner);
                        down.get_or_insert_with(|| outage.clone());
                    }
                    done.push((place, result));
                }
                done
            }
        };
        let mut posted = stream::iter(groups(events))
            .map(post_group)
            .buffer_unordered(self.concurrency);
        let mut results = vec![None; events.len()];
        while let Some(done) = posted.next().await {
            for (place, result) in done {
                results[place] = Some(result);
            }
        }
        let results = results.into_iter();
        results
            .map(|result| result.expect("every event is in one group"))
            .collect()
    }
}

/// Returns the indexes of the events of each ordering key, in order. An event without a key is a group of its own.
fn groups(events: &[Outgoing]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut of_key = HashMap::new();
    for (place, event) in events.iter().enumerate() {
        match &event.key {
            None => groups.push(vec![place]),
            Some(key) => match of_key.get(key.as_str()) {
                None => {
                    of_key.insert(key.as_str(), groups.len());
                    groups.push(vec![place]);
                }
                Some(&group) => groups[group].push(place),
            },
        }
    }
    groups
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("origin", &self.origin())
            .field("source", &self.source)
            .field("mode", &self.mode)
            .field("reach", &self.reach)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
