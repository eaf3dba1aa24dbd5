//! When a relay ends on its own.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turno::outbox::OutboxStats;

use crate::cmd::outbox::table::EventSource;

/// Maximum interval between two checks of whether events are left. A shorter poll interval of the relay takes precedence.
const LOOK: Duration = Duration::from_millis(200);
/// Minimum time without progress before the relay gives up on events that wait behind blocked ones.
const STUCK: Duration = Duration::from_secs(2);

/// Why a relay ends on its own.
#[derive(Debug)]
pub(super) enum End {
    /// Nothing is left.
    Empty,
    /// All events that are left wait for an operator.
    Blocked(Blocked),
    /// The reader of standard output is gone.
    NoReader,
}

/// Counts of the events that wait for an operator.
#[derive(Debug)]
pub(super) struct Blocked {
    pending: u64,
    blocked: u64,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the outbox does not become empty: {} events are pending without progress, and {} are blocked. \
             See `turno outbox list --state blocked`, and requeue or discard them",
            self.pending, self.blocked
        )
    }
}

impl std::error::Error for Blocked {}

/// The conditions of the end.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    pub(super) source: &'a EventSource,
    pub(super) until_empty: bool,
    /// Poll interval of the relay, if it was set.
    pub(super) poll: Option<Duration>,
    pub(super) reader_gone: CancellationToken,
}

impl Watch<'_> {
    /// Waits until the relay has to end.
    pub(super) async fn end(self) -> End {
        tokio::select! {
            () = self.reader_gone.cancelled() => End::NoReader,
            end = self.emptied(), if self.until_empty => end,
        }
    }

    async fn emptied(&self) -> End {
        let mut since = (Instant::now(), None);
        loop {
            match self.source.stats().await {
                Ok(stats) if stats.pending == 0 && stats.processing == 0 => return End::Empty,
                Ok(stats) => {
                    let seen = Some(moving(&stats));
                    if since.1 != seen {
                        since = (Instant::now(), seen);
                    } else if stats.blocked > 0
                        && stats.processing == 0
                        && since.0.elapsed() > self.stuck()
                    {
                        return End::Blocked(Blocked {
                            pending: stats.pending,
                            blocked: stats.blocked,
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the counts of the outbox cannot be read; retrying");
                }
            }
            tokio::time::sleep(LOOK.min(self.poll.unwrap_or(LOOK))).await;
        }
    }

    fn stuck(&self) -> Duration {
        STUCK.max(self.poll.unwrap_or_default() * 2)
    }
}

/// Returns counts that change when there is progress.
fn moving(stats: &OutboxStats) -> [u64; 6] {
    [
        stats.pending,
        stats.scheduled,
        stats.processing,
        stats.dispatched,
        stats.dead,
        stats.blocked,
    ]
}
