//! The one error type. Contention is never an error: it is an outcome.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A call failed: an argument is invalid, the store is unavailable, or something is broken.
///
/// Contention is not an error: a lock that another owner holds is an outcome.
/// The error is cheap to clone. Its text says what to do next, and predicates tell its kind:
///
/// ```
/// use turno_api::Error;
/// use turno_api::ids::LeaseId;
///
/// let error: Error = "@1".parse::<LeaseId>().unwrap_err();
/// assert!(error.is_invalid());
/// assert_eq!(error.field(), Some("lease"));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    message: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kind of an [`Error`]. Users of the library see it through predicates only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An argument is invalid; its name.
    Invalid(Cow<'static, str>),
    /// A token or claim is stale, where the call has no outcome for it (a guard).
    Lost,
    /// The store is unavailable now; the same call may succeed later.
    Unavailable,
    /// The store rejects the call until its configuration or its rights change.
    Refused,
    /// The queue does not exist: nothing was ever pushed to it.
    NoQueue,
    /// The schema is missing, or newer than this program.
    Schema,
    /// A bug, here or in the store.
    Broken,
}

impl Kind {
    /// The argument of this name is invalid.
    pub fn invalid(field: &'static str) -> Self {
        Kind::Invalid(Cow::Borrowed(field))
    }
}

/// Constructors, for implementations of a store or of an interface. The text says what to do next.
///
/// ```
/// use turno_api::Error;
///
/// let error = Error::invalid("ttl", "ttl is 0s: give at least 1ms");
/// assert_eq!((error.is_invalid(), error.field()), (true, Some("ttl")));
/// assert!(Error::unavailable("the server does not answer: try again in a moment").is_unavailable());
/// ```
impl Error {
    /// An argument is invalid; nothing was stored.
    pub fn invalid(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Error::new(Kind::Invalid(field.into()), message)
    }

    /// A token or a claim is stale, where the call has no outcome for it.
    pub fn lost_claim(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Lost, message)
    }

    /// The store is unavailable now; the same call may succeed later.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Unavailable, message)
    }

    /// The store rejects the call until its configuration or its rights change.
    pub fn refused(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Refused, message)
    }

    /// The queue does not exist: nothing was ever pushed to it.
    pub fn no_queue(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::NoQueue, message)
    }

    /// The schema is missing, or of another version.
    pub fn schema(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Schema, message)
    }

    /// A bug, in the store or in its caller.
    pub fn broken(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Broken, message)
    }

    /// The same error, with its cause.
    pub fn caused_by(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let (kind, message) = (self.0.kind.clone(), self.0.message.clone());
        Error::caused(kind, message, source)
    }
}

/// Constructors with a [`Kind`], for the crates of Turno.
#[doc(hidden)]
impl Error {
    /// An error of a kind.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    /// An error of a kind, with its cause.
    pub fn caused(
        kind: Kind,
        message: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            source: Some(source.into()),
        }))
    }

    /// The lease with this token is lost.
    pub fn lost(resource: &str, token: impl fmt::Display) -> Self {
        Error::new(
            Kind::Lost,
            format!(
                "the lease on {resource} with token {token} is lost: another holder may have the lock. \
                 Roll back, acquire it again and repeat the work"
            ),
        )
    }

    /// The claim of a once key is stale.
    pub fn stale(claim: impl fmt::Display) -> Self {
        Error::new(
            Kind::Lost,
            format!(
                "the claim {claim} is stale: another run counts. Roll back, and begin again to get its answer"
            ),
        )
    }

    /// The store answered with a word that this program does not know: a schema of another version.
    pub fn unexpected(what: &str, word: &str) -> Self {
        Error::new(
            Kind::Schema,
            format!(
                "the store answered an unknown {what}, {word:?}: it may be of a newer Turno; upgrade this program"
            ),
        )
    }

    /// The kind of the error.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }
}

/// Predicates.
impl Error {
    /// An argument is invalid; [`Error::field`] names it, and nothing was stored.
    pub fn is_invalid(&self) -> bool {
        matches!(self.0.kind, Kind::Invalid(_))
    }

    /// The token of a guard or of a completion is stale: the caller must roll back its transaction.
    pub fn is_lost(&self) -> bool {
        self.0.kind == Kind::Lost
    }

    /// The store cannot be reached, or is too busy, right now. Repeating the call is safe.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == Kind::Unavailable
    }

    /// The store rejects the call, and would again: it is read-only or full, or the caller has no rights.
    pub fn is_refused(&self) -> bool {
        self.0.kind == Kind::Refused
    }

    /// The queue does not exist: nothing was ever pushed to it, or its name is misspelt. A claim and a worker do not get this
    /// error: they wait for the first push.
    pub fn is_no_queue(&self) -> bool {
        self.0.kind == Kind::NoQueue
    }

    /// The store's schema is missing, or newer than this program.
    pub fn is_schema(&self) -> bool {
        self.0.kind == Kind::Schema
    }

    /// Returns whether the error is a bug, here or in the store, such as an answer that cannot be read.
    pub fn is_broken(&self) -> bool {
        self.0.kind == Kind::Broken
    }

    /// The name of the invalid argument.
    pub fn field(&self) -> Option<&str> {
        match &self.0.kind {
            Kind::Invalid(field) => Some(field),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
