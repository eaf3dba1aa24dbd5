//! Calls that run to their end although their caller is cancelled.

use crate::error::{Error, Kind, Result};

/// Runs a call in its own task, so that it ends although the caller is cancelled. The result of a call whose caller is gone
/// (a lease, a claim) is dropped, which gives it back at once instead of after its TTL.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(call).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new(Kind::Unavailable, "the program is ending")),
        },
    }
}
