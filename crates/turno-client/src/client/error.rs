//! The error of a call.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use turno_api::problem::Problem;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call: an invalid argument, no response, or a problem from the server. Contention is an outcome, not an error.
///
/// Cheap to clone. Its text says what to do next; its predicates tell the kinds apart.
///
/// ```
/// let error = turno_client::Client::new("ftp://turno").unwrap_err();
/// assert!(error.is_invalid());
/// assert_eq!(error.field(), Some("server"));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

#[derive(Debug)]
enum Kind {
    /// An invalid argument: field and message. Nothing was sent.
    Invalid(Cow<'static, str>, Cow<'static, str>),
    /// No response. The server may or may not have processed the request.
    Unanswered(String),
    /// The server responded with a problem.
    Problem(Box<Problem>),
    /// A response that Turno does not send, or a bug.
    Broken(String),
}

impl Error {
    fn new(kind: Kind) -> Self {
        Error(Arc::new(Inner { kind, source: None }))
    }

    pub(crate) fn invalid(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Error::new(Kind::Invalid(field.into(), message.into()))
    }

    pub(crate) fn problem_of(problem: Problem) -> Self {
        Error::new(Kind::Problem(Box::new(problem)))
    }

    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Error::new(Kind::Broken(message.into()))
    }

    pub(super) fn unanswered(
        message: String,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Error(Arc::new(Inner {
            kind: Kind::Unanswered(message),
            source: Some(source.into()),
        }))
    }

    /// Returns the problem of the server's response; `None` if there was no response or it was not a problem.
    pub fn problem(&self) -> Option<&Problem> {
        match &self.0.kind {
            Kind::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the stable problem code of the server's response, if there is one.
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.code.as_str())
    }

    fn status(&self) -> Option<u16> {
        self.problem().map(|problem| problem.status)
    }

    /// Whether the server or its store is unreachable or overloaded at the moment. A retry may succeed.
    pub fn is_unavailable(&self) -> bool {
        match &self.0.kind {
            Kind::Unanswered(_) => true,
            Kind::Problem(problem) => matches!(
                problem.code.as_str(),
                "unavailable" | "overloaded" | "shutting_down" | "rate_limited" | "timeout"
            ),
            _ => false,
        }
    }

    /// Whether the access token is missing or not accepted (HTTP 401).
    pub fn is_unauthorized(&self) -> bool {
        self.status() == Some(401)
    }

    /// Whether the access token does not permit the call (HTTP 403): its role is too low, or the name is outside its prefix.
    pub fn is_forbidden(&self) -> bool {
        self.status() == Some(403)
    }

    /// Whether an argument is invalid. [`Error::field`] names it. Nothing was stored.
    pub fn is_invalid(&self) -> bool {
        match &self.0.kind {
            Kind::Invalid(..) => true,
            Kind::Problem(problem) => {
                matches!(problem.code.as_str(), "invalid" | "malformed" | "too_large")
            }
            _ => false,
        }
    }

    /// Returns the name of the invalid argument, if one is known.
    pub fn field(&self) -> Option<&str> {
        match &self.0.kind {
            Kind::Invalid(field, _) => Some(field),
            Kind::Problem(problem) => problem.field.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            Kind::Invalid(_, message) => f.write_str(message),
            Kind::Unanswered(message) | Kind::Broken(message) => f.write_str(message),
            Kind::Problem(problem) => {
                f.write_str(&problem.detail)?;
                match &problem.request_id {
                    // The server's log has the details of this request.
                    Some(id) if problem.status == 500 => {
                        write!(f, " (request {id} in the server's log)")
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            Kind::Problem(problem) => write!(f, "{} {}: {self}", problem.status, problem.code)?,
            Kind::Invalid(field, _) => write!(f, "invalid {field}: {self}")?,
            Kind::Unanswered(_) => write!(f, "unanswered: {self}")?,
            Kind::Broken(_) => write!(f, "broken: {self}")?,
        }
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

/// Maps the error to the library's kinds, so that code on a [`RemoteStore`](crate::RemoteStore) handles errors as on any store.
impl From<Error> for turno::Error {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let field = || error.field().unwrap_or("request").to_owned();
        let known = match error.code() {
            _ if error.is_invalid() => turno::Error::invalid(field(), text),
            _ if error.is_unavailable() => turno::Error::unavailable(text),
            Some("unauthorized" | "forbidden" | "out_of_scope" | "misdirected" | "refused") => {
                turno::Error::refused(text)
            }
            Some("no_queue") => turno::Error::no_queue(text),
            Some("schema") => turno::Error::schema(text),
            Some("lost" | "stale" | "not_held") => turno::Error::lost_claim(text),
            _ => turno::Error::broken(text),
        };
        known.caused_by(error)
    }
}
