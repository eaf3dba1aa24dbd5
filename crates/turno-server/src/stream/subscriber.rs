//! The response body of a stream: the snapshot, then the changes, until the stream ends.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http::request::Parts;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use turno::problem::ProblemCode;

use super::feed::Subscription;
use super::frame::{KEEP_ALIVE, reconnect};
use crate::auth::gatekeeper::{Credentials, Gatekeeper};

/// How long a stream may be idle before a comment is sent to keep the connection alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Lifetime of a stream, as a multiple of the option `max_wait`. Then the client must authenticate again.
const LIFETIME_FACTOR: u32 = 10;
/// First bytes of a stream. Sets the reconnection delay of browsers to 1000 ms.
const FIRST_BYTES: &[u8] = b"retry: 1000\n\n";

/// How often the server checks whether the access token was revoked.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// What a stream needs of the server.
pub(crate) struct StreamOptions {
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    /// Cancelled when the server shuts down.
    pub(crate) closing: CancellationToken,
    pub(crate) max_wait: Duration,
    /// Number of subscribers, for the metrics.
    pub(crate) subscribers: Gauge,
}

/// Creates the body of a stream. `head` is the head of the request that was admitted.
pub(crate) fn body(options: StreamOptions, subscription: Subscription, head: Parts) -> Body {
    let now = Instant::now();
    let subscriber = Subscriber {
        preamble: Some(Bytes::from_static(FIRST_BYTES)),
        subscription,
        request: Request::from_parts(head, ()),
        keep_alive_at: now + KEEP_ALIVE_INTERVAL,
        check_at: now + ACCESS_CHECK_INTERVAL,
        until: now + options.max_wait * LIFETIME_FACTOR,
        has_ended: false,
        _counted: CountedSubscriber::new(options.subscribers),
        gatekeeper: options.gatekeeper,
        closing: options.closing,
    };
    Body::from_stream(stream::unfold(subscriber, async |mut subscriber| {
        let text = subscriber.next().await?;
        subscriber.keep_alive_at = Instant::now() + KEEP_ALIVE_INTERVAL;
        Some((Ok::<_, std::convert::Infallible>(text), subscriber))
    }))
}

struct Subscriber {
    preamble: Option<Bytes>,
    subscription: Subscription,
    /// Head of the request that was admitted.
    request: Request<()>,
    keep_alive_at: Instant,
    check_at: Instant,
    until: Instant,
    has_ended: bool,
    gatekeeper: Arc<Gatekeeper>,
    closing: CancellationToken,
    _counted: CountedSubscriber,
}

impl Subscriber {
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        let first = &mut self.subscription.first;
        if let Some(text) = self.preamble.take().or_else(|| first.take()) {
            return Some(text);
        }
        loop {
            let reason = tokio::select! {
                biased;
                () = self.closing.cancelled() => "shutting_down",
                () = sleep_until(self.until) => "time",
                () = sleep_until(self.check_at) => {
                    self.check_at += ACCESS_CHECK_INTERVAL;
                    if self.is_still_admitted().await {
                        continue;
                    }
                    "access"
                }
                received = self.subscription.then.recv() => match received {
                    Ok(text) => return Some(text),
                    // The missed messages are gone, so the client must reconnect.
                    Err(RecvError::Lagged(_)) => "slow",
                    Err(RecvError::Closed) => "shutting_down",
                },
                () = sleep_until(self.keep_alive_at) => return Some(KEEP_ALIVE),
            };
            self.has_ended = true;
            return Some(reconnect(reason));
        }
    }

    /// Whether the request would still be admitted. An unavailable store does not end the stream: it has no changes to report
    /// either.
    async fn is_still_admitted(&self) -> bool {
        let credentials = Credentials::of(&self.request);
        match self.gatekeeper.admit(&credentials).await {
            Ok(_) => true,
            Err(problem) => !matches!(
                problem.code(),
                ProblemCode::Unauthorized | ProblemCode::Forbidden | ProblemCode::Misdirected
            ),
        }
    }
}

/// Counts a subscriber in the metrics.
struct CountedSubscriber(Gauge);

impl CountedSubscriber {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        CountedSubscriber(gauge)
    }
}

impl Drop for CountedSubscriber {
    fn drop(&mut self) {
        self.0.dec();
    }
}
