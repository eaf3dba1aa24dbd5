//! Overlapping attempts, so that a host that does not respond does not delay the others.

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::error::{Error, Kind, Result};

/// Time after which the next attempt starts, if the previous one has not ended.
const NEXT_DELAY: Duration = Duration::from_millis(250);

/// An attempt that has not been started yet.
pub(super) type Attempt<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Starts the attempts one after the other, and returns the first result that `is_wanted`. A result that is not wanted is returned
/// if no other attempt succeeds.
///
/// Cancel-safe: attempts in progress are dropped.
pub(super) async fn first<T>(
    attempts: Vec<Attempt<'_, T>>,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<T> {
    let mut waiting = attempts.into_iter();
    let mut running: FuturesUnordered<Attempt<'_, T>> = waiting.next().into_iter().collect();
    let mut errors = Vec::new();
    let mut second_choice = None;
    while !running.is_empty() {
        tokio::select! {
            Some(done) = running.next() => {
                match done {
                    Ok(opened) if is_wanted(&opened) => return Ok(opened),
                    Ok(opened) => second_choice = second_choice.or(Some(opened)),
                    Err(error) => errors.push(error),
                }
                running.extend(waiting.next());
            }
            () = tokio::time::sleep(NEXT_DELAY), if waiting.len() > 0 => {
                running.extend(waiting.next());
            }
        }
    }
    second_choice.ok_or_else(|| together(errors))
}

/// Returns one error for all attempts. It is retryable if one of them is, because that host may become available.
fn together(mut errors: Vec<Error>) -> Error {
    if errors.len() == 1 {
        return errors.remove(0);
    }
    let said: Vec<String> = errors.iter().map(Error::to_string).collect();
    let said = said.join("; ");
    let passing = errors.iter().position(Error::is_unavailable);
    match errors.into_iter().nth(passing.unwrap_or(0)) {
        Some(error) => Error::caused(error.kind().clone(), said, error),
        None => Error::new(Kind::Broken, "no host was tried"),
    }
}
