//! Settings that apply to every call of one [`Turno`](crate::Turno).

use std::time::Duration;

use uuid::Uuid;

use crate::check::{MAX_CLAIM_BYTES, MAX_PAYLOAD_BYTES, MAX_TTL};
use crate::once::AnswerKeys;
use crate::store::{Batching, Roles};

/// Default of [`Settings::idle_poll_max`]: with jitter, an idle process sends no statement for more than ten minutes.
const IDLE_POLL_MAX: Duration = Duration::from_secs(15 * 60);

/// Default of [`Settings::connection_max_age`]. Connections are replaced at this age so that they move to where new ones go:
/// after a failover, after a change in DNS, or behind a load balancer.
const CONNECTION_MAX_AGE: Duration = Duration::from_secs(30 * 60);
/// Default of [`Settings::call_timeout`].
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Retry policy for a busy lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// Number of attempts, including the first one. Default: 1.
    pub max: u32,
    /// Pause between two attempts. Default: 500 milliseconds.
    pub delay: Duration,
}

impl Retry {
    /// Creates a retry policy: `max` attempts in all, with a pause of `delay` between two of them.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let retry = turno::Retry::new(3, Duration::from_millis(100));
    /// assert_eq!(retry.max, 3);
    /// ```
    pub fn new(max: u32, delay: Duration) -> Self {
        Retry { max, delay }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            max: 1,
            delay: Duration::from_millis(500),
        }
    }
}

/// Whether connecting migrates the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Migrate {
    /// Migrates a missing or older schema. This is the default.
    #[default]
    Auto,
    /// Does not migrate. A missing or older schema is an error.
    Never,
    /// Neither migrates nor checks the schema version. For tools that examine a store.
    Unchecked,
}

/// Options of one call that writes.
///
/// ```
/// let options = turno::CallOptions::default().request(uuid::Uuid::now_v7());
/// assert!(options.request.is_some());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// Request id of the call. A call that is repeated with the same id, because its response was lost, changes nothing and
    /// returns the first result. Use a new id for each call. Default: a new UUIDv7.
    pub request: Option<Uuid>,
}

impl CallOptions {
    /// Sets the [request id](CallOptions#structfield.request), or removes it.
    #[must_use = "these are other options"]
    pub fn request(mut self, request: impl Into<Option<Uuid>>) -> Self {
        self.request = request.into();
        self
    }

    pub(crate) fn request_id(self) -> Uuid {
        self.request.unwrap_or_else(Uuid::now_v7)
    }
}

/// Defaults and limits of every call.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// let mut settings = turno::Settings::default();
/// settings.max_payload = 64 * 1024;
/// let turno = turno::Turno::builder().settings(settings).connect("sqlite::memory:").await?;
/// let error = turno.inbox("mail").push(&"x".repeat(100_000)).await.unwrap_err();
/// assert_eq!(error.field(), Some("payload"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// TTL of a lease if the call gives none. Default: 30 seconds.
    pub ttl: Duration,
    /// Longest accepted TTL. Default: 24 hours.
    pub max_ttl: Duration,
    /// Retry policy for a busy lock. Default: one attempt.
    pub retry: Retry,
    /// User name if a call gives none. Default: none.
    pub user: Option<String>,
    /// Service name if a call gives none. Default: none.
    pub service: Option<String>,
    /// Maximum number of connections of the pool. Default: 16. Not used by a store that has no pool.
    pub connections: usize,
    /// Maximum age of a connection. Default: 30 minutes. Each connection lives up to a tenth less, so that they do not all end at
    /// the same time.
    pub connection_max_age: Duration,
    /// Maximum time that one call waits for the database server: for a connection, for locks of other transactions
    /// and for the response. Then the call is cancelled on the server, and fails as unavailable. Default: 10 seconds.
    pub call_timeout: Duration,
    /// Whether connecting migrates the schema. Default: [`Migrate::Auto`].
    pub migrate: Migrate,
    /// Whether a migration creates the database's roles and grants rights to them. Default: [`Roles::Grant`].
    pub roles: Roles,
    /// Largest accepted payload, in bytes. Default: 1 MiB.
    pub max_payload: usize,
    /// Maximum total size of the payloads of one claim, in bytes. Default: 16 MiB. A single item is claimed whatever its size.
    pub max_claim_bytes: usize,
    /// Whether concurrent calls are sent to the store in batches. Default: [`Batching::Batched`].
    pub batching: Batching,
    /// Longest time for which an idle worker, relay, sweeper or waiter does not poll the store. They know when the next
    /// item is due, and are notified of all other changes; this bounds the delay that a lost notification can cause.
    /// Where notifications do not arrive, as behind a pooler, they poll more often. Default: 15 minutes; at least 10 milliseconds.
    pub idle_poll_max: Duration,
    /// Keys that encrypt stored answers. Default: `None`, answers are stored in plain text.
    pub answer_keys: Option<AnswerKeys>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            ttl: Duration::from_secs(30),
            max_ttl: MAX_TTL,
            retry: Retry::default(),
            user: None,
            service: None,
            connections: 16,
            connection_max_age: CONNECTION_MAX_AGE,
            call_timeout: CALL_TIMEOUT,
            migrate: Migrate::default(),
            roles: Roles::default(),
            max_payload: MAX_PAYLOAD_BYTES,
            max_claim_bytes: MAX_CLAIM_BYTES,
            batching: Batching::default(),
            idle_poll_max: IDLE_POLL_MAX,
            answer_keys: None,
        }
    }
}
