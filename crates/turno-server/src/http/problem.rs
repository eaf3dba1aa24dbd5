//! Error responses: RFC 9457, with a stable code, in the client's language.
//!
//! A handler returns a [`Problem`]. It is stored in the response's extensions. [`render`] writes the body, when language and id
//! of the request are known.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{
    CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use turno::lock::{Busy, Language};
use turno::once::OnceRun;
use turno_api::{duration, problem};

use super::problem_code::ProblemCode;

/// Default of `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A problem before it is rendered.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    code: ProblemCode,
    /// Specific reason in English, if it says more than the code.
    reason: Option<Cow<'static, str>>,
    /// The same reason in Spanish, if there is a translation.
    spanish: Option<String>,
    field: Option<String>,
    retry_after: Option<Duration>,
    more: Box<More>,
}

/// Data that only some problems have.
#[derive(Debug, Clone)]
enum More {
    Nothing,
    Busy(Busy),
    Run(String, OnceRun),
}

impl Problem {
    pub(crate) fn new(code: ProblemCode) -> Self {
        Problem {
            retry_after: code.is_transient().then_some(DEFAULT_RETRY_AFTER),
            code,
            reason: None,
            spanish: None,
            field: None,
            more: Box::new(More::Nothing),
        }
    }

    /// The problem of an invalid argument.
    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        let field: String = field.into();
        Problem {
            field: Some(field).filter(|field| !field.is_empty()),
            ..Problem::new(ProblemCode::Invalid).because(reason)
        }
    }

    /// Adds the position of the invalid entry in a list to the field.
    pub(crate) fn within(mut self, list: &str, place: usize) -> Self {
        self.field = Some(match self.field.take() {
            Some(field) => format!("{list}[{place}].{field}"),
            None => format!("{list}[{place}]"),
        });
        self
    }

    /// Sets the specific reason, in English.
    pub(crate) fn because(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    pub(crate) fn busy(busy: Busy) -> Self {
        Problem {
            reason: Some(busy.message(Language::English).into()),
            spanish: Some(busy.message(Language::Spanish)),
            retry_after: Some(busy.remaining),
            more: Box::new(More::Busy(busy)),
            ..Problem::new(ProblemCode::Busy)
        }
    }

    /// Another run of the key is in flight.
    pub(crate) fn in_flight(key: String, run: OnceRun) -> Self {
        Problem {
            retry_after: Some(DEFAULT_RETRY_AFTER.min(run.remaining)),
            more: Box::new(More::Run(key, run)),
            ..Problem::new(ProblemCode::InFlight)
        }
    }

    /// The lease of the key's last run expired without an answer.
    pub(crate) fn unknown(key: String, run: OnceRun) -> Self {
        Problem {
            more: Box::new(More::Run(key, run)),
            ..Problem::new(ProblemCode::Unknown)
        }
    }

    pub(crate) fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    pub(crate) fn code(&self) -> ProblemCode {
        self.code
    }

    fn body(&self, language: Language, request_id: Option<&str>) -> problem::Problem {
        let (title, next) = self.code.words(language);
        // The library's messages are in English. Spanish readers get the general text of the code, and the reason beside it.
        let (detail, reason) = match (language, &self.reason, &self.spanish) {
            (Language::English, Some(reason), _) => (reason.to_string(), None),
            (Language::English, None, _) => (next.to_owned(), None),
            (Language::Spanish, _, Some(spanish)) => (spanish.clone(), None),
            (Language::Spanish, reason, None) => {
                (next.to_owned(), reason.as_deref().map(str::to_owned))
            }
        };
        let mut body = problem::Problem {
            kind: "about:blank".to_owned(),
            title: title.to_owned(),
            status: self.code.status().as_u16(),
            code: self.code.as_str().to_owned(),
            detail,
            field: self.field.clone(),
            reason,
            request_id: request_id.map(str::to_owned),
            retry_after_ms: self.retry_after.map(duration::ms),
            resource: None,
            holder: None,
            key: None,
            worker: None,
            attempt: None,
            began_at: None,
            expires_at: None,
            remaining_ms: None,
        };
        match self.more.as_ref() {
            More::Nothing => {}
            More::Busy(busy) => {
                body.resource = Some(busy.resource.clone());
                body.holder = busy.holder.clone();
            }
            More::Run(key, run) => {
                body.key = Some(key.clone());
                body.worker = run.worker.clone();
                body.attempt = Some(run.attempt);
                body.began_at = Some(run.began_at);
                body.expires_at = Some(run.expires_at);
                body.remaining_ms = Some(duration::ms(run.remaining));
            }
        }
        body
    }
}

impl From<turno::Error> for Problem {
    fn from(error: turno::Error) -> Self {
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
        // Error messages of the store are for operators: they may contain hosts, users and files. They go to the log only.
        match code {
            ProblemCode::Lost => {}
            ProblemCode::Unavailable => tracing::warn!(%error, "the store is unavailable"),
            _ => tracing::error!(%error, "the store rejected a request"),
        }
        Problem::new(code)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.code.status();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of a response's problem, if it has one.
pub(crate) fn render(response: &mut Response, language: Language, request_id: &str) {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return;
    };
    let body = problem.body(language, Some(request_id));
    let text = serde_json::to_string(&body).unwrap_or_default();
    *response.body_mut() = Body::from(text);
    set_headers(response.headers_mut(), &problem, language);
}

fn set_headers(headers: &mut HeaderMap, problem: &Problem, language: Language) {
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    headers.insert(
        CONTENT_LANGUAGE,
        HeaderValue::from_static(match language {
            Language::English => "en",
            Language::Spanish => "es",
        }),
    );
    if let Some(retry_after) = problem.retry_after {
        // Whole seconds, at least one.
        let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, seconds.max(1).into());
    }
    if problem.code == ProblemCode::Unauthorized {
        headers.insert(
            WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"turno\""),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_a_text_in_both_languages() {
        for code in ProblemCode::ALL {
            let problem = Problem::new(code).because("the field is empty: fill it");
            let english = problem.body(Language::English, None);
            let spanish = problem.body(Language::Spanish, None);
            let whole =
                |body: &problem::Problem| [&body.title, &body.detail].map(|text| text.len() > 5);
            assert_eq!((whole(&english), whole(&spanish)), ([true; 2], [true; 2]));
            assert_ne!(english.title, spanish.title, "{code:?}");
            assert_ne!(english.detail, spanish.detail, "{code:?}");
            assert_eq!(
                spanish.reason.as_deref(),
                Some("the field is empty: fill it")
            );
            assert_eq!(
                (english.code, english.status),
                (spanish.code, spanish.status)
            );
        }
    }

    #[test]
    fn a_problem_of_one_in_a_list_says_which() {
        let field = |problem: Problem| problem.within("items", 3).field;
        let named = field(Problem::invalid("key", "no"));
        assert_eq!(named.as_deref(), Some("items[3].key"));
        let whole = field(Problem::new(ProblemCode::Invalid));
        assert_eq!(whole.as_deref(), Some("items[3]"));
    }
}
