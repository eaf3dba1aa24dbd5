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

use super::App;
use super::access::Asks;
use super::feed::{COMMENT, Subscription, last};
use super::words::Code;

/// How long a stream may be idle before a comment is sent to keep the connection alive.
const QUIET: Duration = Duration::from_secs(15);
/// Lifetime of a stream, as a multiple of the option `max_wait`. Then the client must authenticate again.
const LASTS: u32 = 10;
/// First bytes of a stream. Sets the reconnection delay of browsers to 1000 ms.
const HELLO: &[u8] = b"retry: 1000\n\n";

/// How often the server checks whether the access token was revoked.
const CHECK: Duration = Duration::from_secs(5);

/// Creates the body of a stream. `shown` is the head of the request that was admitted.
pub(super) fn body(app: &Arc<App>, subscription: Subscription, shown: Parts) -> Body {
    let now = Instant::now();
    let reader = Reader {
        hello: Some(Bytes::from_static(HELLO)),
        subscription,
        shown: Request::from_parts(shown, ()),
        quiet_until: now + QUIET,
        check_at: now + CHECK,
        until: now + app.options.max_wait * LASTS,
        has_ended: false,
        _counted: Counted::new(app.metrics.subscribers.clone()),
        app: app.clone(),
    };
    Body::from_stream(stream::unfold(reader, async |mut reader| {
        let text = reader.next().await?;
        reader.quiet_until = Instant::now() + QUIET;
        Some((Ok::<_, std::convert::Infallible>(text), reader))
    }))
}

struct Reader {
    hello: Option<Bytes>,
    subscription: Subscription,
    /// Head of the request that was admitted.
    shown: Request<()>,
    quiet_until: Instant,
    check_at: Instant,
    until: Instant,
    has_ended: bool,
    app: Arc<App>,
    _counted: Counted,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        let first = &mut self.subscription.first;
        if let Some(text) = self.hello.take().or_else(|| first.take()) {
            return Some(text);
        }
        loop {
            let reason = tokio::select! {
                biased;
                () = self.app.closing.cancelled() => "shutting_down",
                () = sleep_until(self.until) => "time",
                () = sleep_until(self.check_at) => {
                    self.check_at += CHECK;
                    if self.is_welcome().await {
                        continue;
                    }
                    "access"
                }
                heard = self.subscription.then.recv() => match heard {
                    Ok(text) => return Some(text),
                    // The missed messages are gone, so the client must reconnect.
                    Err(RecvError::Lagged(_)) => "slow",
                    Err(RecvError::Closed) => "shutting_down",
                },
                () = sleep_until(self.quiet_until) => return Some(COMMENT),
            };
            self.has_ended = true;
            return Some(last(reason));
        }
    }

    /// Whether the request would still be admitted. An unavailable store does not end the stream: it has no changes to report
    /// either.
    async fn is_welcome(&self) -> bool {
        let asks = Asks::of(&self.shown);
        match self.app.gatekeeper.admit(&asks).await {
            Ok(_) => true,
            Err(problem) => !matches!(
                problem.code(),
                Code::Unauthorized | Code::Forbidden | Code::Misdirected
            ),
        }
    }
}

/// Counts a subscriber in the metrics.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
