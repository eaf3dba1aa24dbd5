//! Questions that are asked to the end, whoever gives up meanwhile.

use crate::error::{Error, Kind, Result};

/// Asks in a task of its own. A caller who gives up meanwhile leaves an answer that nobody has in hand (a lease, a claim),
/// and dropping that gives it back, instead of keeping everybody waiting for its time to live.
pub(crate) async fn ask<T: Send + 'static>(
    question: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(question).await {
        Ok(answer) => answer,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new(Kind::Unavailable, "the program is ending")),
        },
    }
}
