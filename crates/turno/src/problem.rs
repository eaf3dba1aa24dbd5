//! Error responses over HTTP: problems in the format of RFC 9457, with a stable code, in the client's language.
//!
//! The HTTP server, the gate and the once layer use the same type and the same table of codes.
//!
//! ```
//! use turno::lock::Language;
//! use turno::problem::{Problem, ProblemCode};
//!
//! let problem = Problem::new(ProblemCode::NotFound);
//! assert_eq!(problem.code().status(), 404);
//! let body = problem.to_json(Language::English, None);
//! assert!(body.contains("\"code\":\"not_found\""));
//! ```

mod code;

use std::borrow::Cow;
use std::time::Duration;

use http::Response;
use http::header::{
    ACCEPT_LANGUAGE, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use turno_api::duration::ms;
use turno_api::problem::Problem as Body;

pub use self::code::{ProblemCode, ProblemSource, ProblemText};
use crate::error::Error;
use crate::lock::{Busy, Language};
use crate::once::OnceRun;

/// Default of `Retry-After` for problems that pass without intervention.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// An error response before it is rendered: language and request id are not known yet.
#[derive(Debug, Clone)]
pub struct Problem {
    code: ProblemCode,
    /// Specific reason in English, if it says more than the code.
    reason: Option<Cow<'static, str>>,
    /// The same reason in Spanish, if there is a translation.
    spanish_reason: Option<String>,
    field: Option<String>,
    retry_after: Option<Duration>,
    subject: Box<Subject>,
}

/// What the problem is about, if it says more than the code.
#[derive(Debug, Clone)]
enum Subject {
    None,
    Lock(Busy),
    Key(String),
    Run(String, OnceRun),
}

impl Problem {
    /// Creates a problem with the text of its code.
    pub fn new(code: ProblemCode) -> Self {
        Problem {
            retry_after: code.is_transient().then_some(DEFAULT_RETRY_AFTER),
            code,
            reason: None,
            spanish_reason: None,
            field: None,
            subject: Box::new(Subject::None),
        }
    }

    /// Creates the problem of an invalid argument. `field` may be empty.
    pub fn invalid(field: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        Problem::new(ProblemCode::Invalid)
            .because(reason)
            .in_field(field)
    }

    /// Creates the problem of a busy lock.
    pub fn busy(busy: Busy) -> Self {
        Problem {
            reason: Some(busy.message(Language::English).into()),
            spanish_reason: Some(busy.message(Language::Spanish)),
            retry_after: Some(busy.remaining),
            subject: Box::new(Subject::Lock(busy)),
            ..Problem::new(ProblemCode::Busy)
        }
    }

    /// Creates the problem of a once key that has another run in flight.
    pub fn in_flight(key: String, run: OnceRun) -> Self {
        Problem {
            retry_after: Some(DEFAULT_RETRY_AFTER.min(run.remaining)),
            subject: Box::new(Subject::Run(key, run)),
            ..Problem::new(ProblemCode::InFlight)
        }
    }

    /// Creates the problem of a once key whose last run is unknown.
    pub fn unknown(key: String, run: OnceRun) -> Self {
        Problem {
            subject: Box::new(Subject::Run(key, run)),
            ..Problem::new(ProblemCode::Unknown)
        }
    }

    /// Sets the specific reason, in English. It replaces the detail of the code.
    #[must_use]
    pub fn because(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the invalid field. An empty name sets none.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into()).filter(|field| !field.is_empty());
        self
    }

    /// Adds the position of the invalid entry in a list to the field.
    #[must_use]
    pub fn within(mut self, list: &str, place: usize) -> Self {
        self.field = Some(match self.field.take() {
            Some(field) => format!("{list}[{place}].{field}"),
            None => format!("{list}[{place}]"),
        });
        self
    }

    /// Sets the once key, by which an operator finds the request.
    #[must_use]
    pub fn about_key(mut self, key: impl Into<String>) -> Self {
        *self.subject = Subject::Key(key.into());
        self
    }

    /// Sets the time after which the client may try again.
    #[must_use]
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Returns the code.
    pub fn code(&self) -> ProblemCode {
        self.code
    }

    /// Renders the body.
    pub fn to_json(&self, language: Language, request_id: Option<&str>) -> String {
        // The body consists of strings and numbers, so this cannot fail.
        serde_json::to_string(&self.body(language, request_id)).unwrap_or_default()
    }

    /// Returns the whole response.
    pub fn to_response<B: From<String>>(&self, language: Language) -> Response<B> {
        let mut response = Response::new(B::from(self.to_json(language, None)));
        *response.status_mut() = self.code.status();
        self.set_headers(response.headers_mut(), language);
        response
    }

    /// Sets the headers of the response.
    pub fn set_headers(&self, headers: &mut HeaderMap, language: Language) {
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        let language = match language {
            Language::English => "en",
            Language::Spanish => "es",
        };
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(language));
        if let Some(retry_after) = self.retry_after {
            // Whole seconds, at least one.
            let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, seconds.max(1).into());
        }
        if self.code == ProblemCode::Unauthorized {
            let bearer = HeaderValue::from_static("Bearer realm=\"turno\"");
            headers.insert(WWW_AUTHENTICATE, bearer);
        }
    }

    fn body(&self, language: Language, request_id: Option<&str>) -> Body {
        let (title, next) = self.code.text(language);
        let reason = self.reason.as_deref();
        // The library's messages are in English. Spanish readers get the general text of the code, and the reason beside it.
        let (detail, reason) = match (language, self.spanish_reason.as_deref()) {
            (Language::English, _) => (reason.unwrap_or(next), None),
            (Language::Spanish, Some(spanish)) => (spanish, None),
            (Language::Spanish, None) => (next, reason),
        };
        let body = Body {
            kind: "about:blank".to_owned(),
            title: title.to_owned(),
            status: self.code.status().as_u16(),
            code: self.code.as_str().to_owned(),
            detail: detail.to_owned(),
            field: self.field.clone(),
            reason: reason.map(str::to_owned),
            request_id: request_id.map(str::to_owned),
            retry_after_ms: self.retry_after.map(ms),
            ..Body::default()
        };
        match (*self.subject).clone() {
            Subject::None => body,
            Subject::Lock(busy) => Body {
                resource: Some(busy.resource),
                holder: busy.holder,
                ..body
            },
            Subject::Key(key) => Body {
                key: Some(key),
                ..body
            },
            Subject::Run(key, run) => Body {
                key: Some(key),
                worker: run.worker,
                attempt: Some(run.attempt),
                began_at: Some(run.began_at),
                expires_at: Some(run.expires_at),
                remaining_ms: Some(ms(run.remaining)),
                ..body
            },
        }
    }
}

/// The problem of a failed call. Messages of the store are written to the log only: they may contain hosts, users and files.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if error.is_invalid() {
            return Problem::invalid(error.field().unwrap_or_default(), error.to_string());
        }
        if error.is_no_queue() {
            return Problem::new(ProblemCode::NoQueue).because(error.to_string());
        }
        let code = if error.is_lost() {
            ProblemCode::Lost
        } else if error.is_unavailable() {
            ProblemCode::Unavailable
        } else if error.is_refused() {
            ProblemCode::Refused
        } else if error.is_schema() {
            ProblemCode::Schema
        } else {
            ProblemCode::Broken
        };
        match code {
            ProblemCode::Lost => {}
            ProblemCode::Unavailable => tracing::warn!(%error, "the store is unavailable"),
            _ => tracing::error!(%error, "the store rejected a call"),
        }
        Problem::new(code)
    }
}

/// Returns the client's language, of those that problems have: the first known one in `Accept-Language`, without regard to
/// weights. Default: English.
pub fn language(headers: &HeaderMap) -> Language {
    let accepted = headers
        .get(ACCEPT_LANGUAGE)
        .and_then(|value| value.to_str().ok());
    for accepted in accepted.unwrap_or_default().split(',') {
        let tag = accepted.split([';', '-']).next().unwrap_or_default().trim();
        if tag.eq_ignore_ascii_case("es") {
            return Language::Spanish;
        }
        if tag.eq_ignore_ascii_case("en") {
            return Language::English;
        }
    }
    Language::English
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specific_reason_is_kept_in_both_languages() {
        let problem = Problem::invalid("name", "name is empty: fill it");
        let english = problem.body(Language::English, None);
        assert_eq!(english.detail, "name is empty: fill it");
        let spanish = problem.body(Language::Spanish, Some("7"));
        assert_eq!(
            spanish.detail,
            ProblemCode::Invalid.text(Language::Spanish).1
        );
        assert_eq!(spanish.reason.as_deref(), Some("name is empty: fill it"));
        assert_eq!(spanish.field.as_deref(), Some("name"));
        assert_eq!(spanish.request_id.as_deref(), Some("7"));
    }

    #[test]
    fn the_problem_of_an_entry_has_its_position() {
        let field = |problem: Problem| problem.within("items", 3).field;
        let named = field(Problem::invalid("key", "no"));
        assert_eq!(named.as_deref(), Some("items[3].key"));
        let whole = field(Problem::new(ProblemCode::Invalid));
        assert_eq!(whole.as_deref(), Some("items[3]"));
    }
}
