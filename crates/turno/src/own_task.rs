//! Calls that run to their end although their caller was cancelled.

use crate::error::{Error, Kind, Result};

/// Runs a call in a spawned task. If the caller is cancelled meanwhile, the call still ends, and dropping its result releases
/// the lease or claim that it got. Without that, other callers would have to wait until its TTL ends.
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
