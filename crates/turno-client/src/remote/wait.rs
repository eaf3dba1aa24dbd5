//! Long waits, as a series of requests in which the server waits.

use std::time::Duration;

use tokio::time::Instant;
use turno::Result;
use turno_api::duration::WireDuration;

/// Longest wait of one request: proxies and firewalls tend to close a connection that is idle for longer. The server may wait
/// for less.
const SLICE: Duration = Duration::from_secs(60);
/// Minimum time between two requests, in case the server does not wait.
const LEAST: Duration = Duration::from_millis(50);

/// Repeats the request until its answer is final (`is_waiting` is false) or the wait is over.
pub(super) async fn until<T, F>(
    wait: Duration,
    mut ask: impl FnMut(WireDuration) -> F + Send,
    is_waiting: impl Fn(&T) -> bool + Send,
) -> Result<T>
where
    F: Future<Output = Result<T>> + Send,
{
    let deadline = Instant::now() + wait;
    loop {
        let began = Instant::now();
        let slice = deadline.saturating_duration_since(began).min(SLICE);
        let answer = ask(WireDuration(slice)).await?;
        if !is_waiting(&answer) || Instant::now() >= deadline {
            return Ok(answer);
        }
        tokio::time::sleep_until(deadline.min(began + LEAST)).await;
    }
}
