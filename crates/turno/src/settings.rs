//! What is the same for every call of one [`Turno`](crate::Turno).

use std::time::Duration;

use uuid::Uuid;

use crate::check::{MAX_CLAIM_BYTES, MAX_PAYLOAD_BYTES, MAX_TTL};
use crate::once::AnswerKeys;
use crate::store::Roles;

/// Nothing is asked for more than ten minutes, with room for jitter.
const IDLE_POLL_MAX: Duration = Duration::from_secs(15 * 60);

/// A connection is not used again after this age, so that connections move to where new ones go: after a failover, a change
/// in DNS, or behind a balancer.
const CONNECTION_MAX_AGE: Duration = Duration::from_secs(30 * 60);
/// The default of [`Settings::call_timeout`].
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How often and how patiently a busy lock is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// How many tries in all; 1 is a single one.
    pub max: u32,
    /// The pause between two.
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

/// Whether connecting brings the schema up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Migrate {
    /// Yes, if it is missing or older.
    #[default]
    Auto,
    /// No: a missing or older schema is an error.
    Never,
    /// No, and do not look either; for tools that examine a store.
    Unchecked,
}

/// Whether calls that arrive together go to the store together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gather {
    /// Yes: one round trip and one commit for many callers, each with an outcome of its own.
    #[default]
    Together,
    /// No: each by itself.
    Alone,
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

/// The defaults of every call, and the limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The time to live of a lease that names none.
    pub ttl: Duration,
    /// The longest time to live that is accepted.
    pub max_ttl: Duration,
    /// How a busy lock is tried again.
    pub retry: Retry,
    /// The person, when a call names none.
    pub user: Option<String>,
    /// The application, when a call names none.
    pub service: Option<String>,
    /// Connections to the store, where it has many.
    pub connections: usize,
    /// The age after which a connection is not used again. Each lives up to a tenth less, so that they do not all end
    /// together.
    pub connection_max_age: Duration,
    /// The longest that one call waits for the store, where it is a server: for a connection, for locks of other transactions
    /// and for the answer. Then the call is cancelled on the server, and fails as unavailable.
    pub call_timeout: Duration,
    /// Whether connecting migrates.
    pub migrate: Migrate,
    /// Whether migrating creates the database's roles and grants to them.
    pub roles: Roles,
    /// The largest payload that is accepted, in bytes.
    pub max_payload: usize,
    /// The most bytes that the payloads of one claim have together. One item is claimed whatever its size.
    pub max_claim_bytes: usize,
    /// Whether calls that arrive together go to the store together.
    pub gather: Gather,
    /// The longest time for which an idle worker, relay, sweeper or waiter asks the store nothing. They know when the next
    /// item is due, and are notified of everything else; this bounds what a lost notification can cost. Where
    /// notifications do not arrive, as behind a pooler, they ask more often.
    pub idle_poll_max: Duration,
    /// With which keys stored answers are sealed; `None` stores them as they are.
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
            gather: Gather::default(),
            idle_poll_max: IDLE_POLL_MAX,
            answer_keys: None,
        }
    }
}
