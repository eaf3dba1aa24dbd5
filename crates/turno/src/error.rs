//! The one error type. Contention is never an error: it is an outcome.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Something is broken, or was asked for wrongly.
///
/// A lock that somebody else holds is not an error; see [`Acquire`](crate::lock::Acquire).
/// The error is cheap to clone, and says in its text what to do next. What kind it is can be asked
/// with its predicates:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
/// let turno = turno::Turno::connect("sqlite::memory:").await?;
/// let error = turno.lock("").acquire().await.unwrap_err();
/// assert!(error.is_invalid());
/// assert_eq!(error.field(), Some("resource"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    message: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What an [`Error`] is about; shown to callers through predicates only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An argument is out of rule.
    Invalid(Cow<'static, str>),
    /// A token or claim is stale, where only an error can say so (a guard).
    Lost,
    /// The store does not answer now; the same call may succeed later.
    Unavailable,
    /// The store answers, and will not do it until somebody changes something.
    Refused,
    /// Nothing was ever pushed to the queue that was asked about.
    NoQueue,
    /// The schema is of a newer Turno, or missing.
    Schema,
    /// A bug, here or in the store.
    Broken,
}

impl Kind {
    /// An argument of this name is out of rule.
    pub(crate) fn invalid(field: &'static str) -> Self {
        Kind::Invalid(Cow::Borrowed(field))
    }
}

/// For those who write a store, or a face: each kind of error, with a text that says what to do next.
///
/// ```
/// use turno::Error;
///
/// let error = Error::invalid_field("ttl", "ttl is 0s: give at least 1ms");
/// assert_eq!((error.is_invalid(), error.field()), (true, Some("ttl")));
/// assert!(Error::unavailable("the server does not answer: try again in a moment").is_unavailable());
/// ```
impl Error {
    /// An argument is out of rule; nothing was stored.
    pub fn invalid_field(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Error::new(Kind::Invalid(field.into()), message)
    }

    /// A token or a claim is stale, where only an error can say so.
    pub fn lost_claim(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Lost, message)
    }

    /// The store does not answer now; the same call may succeed later.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Unavailable, message)
    }

    /// The store answers, and will not do it until somebody changes something.
    pub fn refused(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Refused, message)
    }

    /// Nothing was ever pushed to the queue that was asked about.
    pub fn no_queue(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::NoQueue, message)
    }

    /// The schema is missing, or of another version.
    pub fn schema(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Schema, message)
    }

    /// A bug, in the store or in what speaks to it.
    pub fn broken(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Broken, message)
    }

    /// The same error, with what caused it.
    pub fn caused_by(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let (kind, message) = (self.0.kind.clone(), self.0.message.clone());
        Error::caused(kind, message, source)
    }
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    pub(crate) fn caused(
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

    pub(crate) fn invalid(field: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::invalid(field), message)
    }

    pub(crate) fn lost(resource: &str, token: impl fmt::Display) -> Self {
        Error::new(
            Kind::Lost,
            format!(
                "the lease on {resource} with token {token} is lost: another holder may have the lock. \
                 Roll back, acquire it again and repeat the work"
            ),
        )
    }

    pub(crate) fn stale(claim: impl fmt::Display) -> Self {
        Error::new(
            Kind::Lost,
            format!(
                "the claim {claim} is stale: somebody else's run counts. Roll back, and begin again to get its answer"
            ),
        )
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// An argument is out of rule; [`Error::field`] names it, and nothing was stored.
    pub fn is_invalid(&self) -> bool {
        matches!(self.0.kind, Kind::Invalid(_))
    }

    /// A guard or a completion found its token stale: the transaction must be rolled back.
    pub fn is_lost(&self) -> bool {
        self.0.kind == Kind::Lost
    }

    /// The store cannot be reached, or is too busy, right now. Repeating the call is safe.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == Kind::Unavailable
    }

    /// The store refuses for good: read-only, full, or no rights.
    pub fn is_refused(&self) -> bool {
        self.0.kind == Kind::Refused
    }

    /// Nothing was ever pushed to the queue whose items were asked about; its name may be mistyped. A claim and a worker
    /// do not get this error: they wait for the first push.
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

    /// The argument that is out of rule.
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
