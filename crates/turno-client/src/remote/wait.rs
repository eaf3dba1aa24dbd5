//! Having the server wait, for as long as a caller wants to: slice by slice.

use std::time::Duration;

use tokio::time::Instant;
use turno::Result;

use crate::wire::Span;

/// The longest that one call waits: a connection on which nothing happens for longer is soon taken for dead by what is
/// between us and the server. The server may wait for less.
const SLICE: Duration = Duration::from_secs(60);
/// The least time between two calls, whatever the server thinks of waiting.
const LEAST: Duration = Duration::from_millis(50);

/// Asks until there is something else to say than that it is not time yet, or the time is up.
pub(super) async fn until<T, F>(
    wait: Duration,
    mut ask: impl FnMut(Span) -> F + Send,
    is_waiting: impl Fn(&T) -> bool + Send,
) -> Result<T>
where
    F: Future<Output = Result<T>> + Send,
{
    let deadline = Instant::now() + wait;
    loop {
        let began = Instant::now();
        let slice = deadline.saturating_duration_since(began).min(SLICE);
        let answer = ask(Span(slice)).await?;
        if !is_waiting(&answer) || Instant::now() >= deadline {
            return Ok(answer);
        }
        tokio::time::sleep_until(deadline.min(began + LEAST)).await;
    }
}
