//! How a loop is stopped: by a future of the caller.

use std::pin::pin;

use tokio_util::sync::CancellationToken;

/// Runs `work` to its end, and cancels `stop` when `shutdown` resolves.
pub(crate) async fn cancel_when<T>(
    shutdown: impl Future<Output = ()>,
    stop: &CancellationToken,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        () = shutdown => stop.cancel(),
        done = &mut work => return done,
    }
    work.await
}
