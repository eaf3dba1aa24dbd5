//! When a relay ends on its own.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cmd::outbox::table::{Backlog, EventSource};

/// Maximum interval between two checks of whether events are left. A shorter poll interval of the relay takes precedence.
const LOOK: Duration = Duration::from_millis(200);
/// Minimum interval between two counts of the events that are left, which cost more than the check.
const COUNT: Duration = Duration::from_secs(1);
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
        let mut progress = Progress::default();
        loop {
            match self.look(&mut progress).await {
                Ok(Some(end)) => return end,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "the counts of the outbox cannot be read; retrying");
                }
            }
            tokio::time::sleep(LOOK.min(self.poll.unwrap_or(LOOK))).await;
        }
    }

    /// Looks once whether the relay has to end.
    async fn look(&self, progress: &mut Progress) -> turno::Result<Option<End>> {
        if !self.source.has_pending().await? {
            return Ok(Some(End::Empty));
        }
        if progress.counted_at.is_some_and(|at| at.elapsed() < COUNT) {
            return Ok(None);
        }
        let backlog = self.source.backlog().await?;
        progress.counted_at = Some(Instant::now());
        let last = progress.last.take();
        let since = match last {
            Some((same, since)) if same == backlog => since,
            _ => Instant::now(),
        };
        let stuck = backlog.blocked > 0 && backlog.processing == 0;
        if stuck && since.elapsed() > self.stuck() {
            return Ok(Some(End::Blocked(Blocked {
                pending: backlog.pending,
                blocked: backlog.blocked,
            })));
        }
        progress.last = Some((backlog, since));
        Ok(None)
    }

    fn stuck(&self) -> Duration {
        STUCK.max(self.poll.unwrap_or_default() * 2)
    }
}

/// What was seen of the backlog. It changes while there is progress.
#[derive(Debug, Default)]
struct Progress {
    counted_at: Option<Instant>,
    /// The last counts, and since when they have been the same.
    last: Option<(Backlog, Instant)>,
}
