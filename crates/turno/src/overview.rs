//! Overview of a store, for dashboards and metrics: held locks, queues, the outbox and open once keys.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turno::Error> {
//! use turno::Turno;
//! use turno::overview::Overview;
//!
//! let turno = Turno::connect("sqlite::memory:").await?;
//! turno.inbox("mail").push(&"to ana").await?;
//! let overview = Overview::read(&turno, "").await?;
//! assert_eq!(overview.queues[0].pending, 1);
//! # Ok(()) }
//! ```

use std::time::Duration;

use crate::error::Result;
use crate::inbox::QueueStats;
use crate::lock::{LockHolder, LockList};
use crate::once::{OnceList, OnceState, OnceView};
use crate::outbox::OutboxStats;
use crate::{MAX_PAGE, Turno};

/// Timeout that callers should apply to a poll.
pub const POLL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum pause between polls.
pub const MAX_PAUSE: Duration = Duration::from_secs(15);
/// Pause after a poll, as a multiple of its duration.
pub const PAUSE_FACTOR: u32 = 10;
/// Maximum number of once keys per state.
pub const MAX_OPEN_KEYS: u32 = 200;

/// Returns the pause after a poll that took this long. A slow store is polled seldom.
pub fn pause_after(poll: Duration) -> Duration {
    poll.saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE)
}

/// State of a store, of the names that begin with a prefix.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// Held locks.
    pub locks: Vec<LockHolder>,
    /// Numbers of items per queue.
    pub queues: Vec<QueueStats>,
    /// Numbers of events, or `None` if the caller may not see them.
    pub outbox: Option<OutboxStats>,
    /// Once keys without an answer.
    pub once: Vec<OnceView>,
}

impl Overview {
    /// Reads all parts. Cancel-safe.
    ///
    /// # Errors
    /// Returns an error if the prefix is invalid or the store is unavailable.
    pub async fn read(turno: &Turno, prefix: &str) -> Result<Self> {
        Ok(Overview {
            locks: locks(turno, prefix).await?,
            queues: turno.inbox_stats(prefix).await?,
            outbox: outbox(turno, prefix).await?,
            once: once(turno, prefix).await?,
        })
    }
}

/// Returns the held locks, ordered by name, at most [`MAX_PAGE`].
///
/// # Errors
/// Returns an error if the prefix is invalid or the store is unavailable.
pub async fn locks(turno: &Turno, prefix: &str) -> Result<Vec<LockHolder>> {
    let list = LockList {
        prefix: prefix.to_owned(),
        limit: MAX_PAGE,
        ..LockList::default()
    };
    turno.lock_list(list).await
}

/// Returns the numbers of events. Events have no names, so the result is `None` with a prefix, and for a caller that may not see
/// all names.
///
/// # Errors
/// Returns an error if the store is unavailable.
pub async fn outbox(turno: &Turno, prefix: &str) -> Result<Option<OutboxStats>> {
    if !prefix.is_empty() {
        return Ok(None);
    }
    match turno.outbox().stats().await {
        Ok(stats) => Ok(Some(stats)),
        Err(error) if error.is_refused() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the once keys without an answer, at most [`MAX_OPEN_KEYS`] per state. Unknown keys come first, because an operator has
/// to decide about them.
///
/// # Errors
/// Returns an error if the prefix is invalid or the store is unavailable.
pub async fn once(turno: &Turno, prefix: &str) -> Result<Vec<OnceView>> {
    let mut keys = Vec::new();
    for state in [OnceState::Unknown, OnceState::InFlight] {
        let list = OnceList {
            state: Some(state),
            prefix: prefix.to_owned(),
            after: String::new(),
            limit: MAX_OPEN_KEYS,
        };
        keys.extend(turno.once_list(list).await?);
    }
    Ok(keys)
}
