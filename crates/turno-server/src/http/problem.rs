//! Problems as responses of handlers.
//!
//! A handler returns a [`Problem`]. It is stored in the response's extensions. [`render`] writes the body, when language and id
//! of the request are known.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use turno::lock::{Busy, Language};
use turno::once::OnceRun;
use turno::problem::{self, ProblemCode};

/// A problem before it is rendered: [`turno::problem::Problem`] as a response of axum.
#[derive(Debug, Clone)]
pub(crate) struct Problem(problem::Problem);

impl Problem {
    pub(crate) fn new(code: ProblemCode) -> Self {
        Problem(problem::Problem::new(code))
    }

    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        Problem(problem::Problem::invalid(field, reason))
    }

    pub(crate) fn busy(busy: Busy) -> Self {
        Problem(problem::Problem::busy(busy))
    }

    pub(crate) fn in_flight(key: String, run: OnceRun) -> Self {
        Problem(problem::Problem::in_flight(key, run))
    }

    pub(crate) fn unknown(key: String, run: OnceRun) -> Self {
        Problem(problem::Problem::unknown(key, run))
    }

    pub(crate) fn because(self, reason: impl Into<Cow<'static, str>>) -> Self {
        Problem(self.0.because(reason))
    }

    pub(crate) fn within(self, list: &str, place: usize) -> Self {
        Problem(self.0.within(list, place))
    }

    pub(crate) fn retry_after(self, retry_after: Duration) -> Self {
        Problem(self.0.retry_after(retry_after))
    }

    pub(crate) fn code(&self) -> ProblemCode {
        self.0.code()
    }
}

impl From<turno::Error> for Problem {
    fn from(error: turno::Error) -> Self {
        Problem(error.into())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.code().status();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of a response's problem, if it has one.
pub(crate) fn render(response: &mut Response, language: Language, request_id: &str) {
    let Some(Problem(problem)) = response.extensions_mut().remove() else {
        return;
    };
    *response.body_mut() = Body::from(problem.to_json(language, Some(request_id)));
    problem.set_headers(response.headers_mut(), language);
}
