//! Calls whose caller is cancelled: they run to their end, and what they were granted is given back.

use crate::Turno;
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

/// Guard of a grant whose caller may be cancelled. On drop, `undo` runs in the background, unless the caller has received the
/// grant ([`ReleaseOnCancel::delivered`]).
pub(crate) struct ReleaseOnCancel<T, F: Future<Output = Result<()>> + Send + 'static> {
    turno: Turno,
    grant: Option<T>,
    undo: fn(Turno, T) -> F,
}

impl<T, F: Future<Output = Result<()>> + Send + 'static> ReleaseOnCancel<T, F> {
    pub(crate) fn new(turno: Turno, grant: T, undo: fn(Turno, T) -> F) -> Self {
        ReleaseOnCancel {
            turno,
            grant: Some(grant),
            undo,
        }
    }

    /// Disarms the guard and returns what it protected.
    pub(crate) fn delivered(mut self) -> Option<T> {
        self.grant.take()
    }
}

impl<T, F: Future<Output = Result<()>> + Send + 'static> Drop for ReleaseOnCancel<T, F> {
    fn drop(&mut self) {
        let Some(grant) = self.grant.take() else {
            return;
        };
        let undone = (self.undo)(self.turno.clone(), grant);
        self.turno.spawn_background(async move {
            if let Err(error) = undone.await {
                tracing::debug!(%error, "a grant of a cancelled caller was not given back; it expires");
            }
        });
    }
}
