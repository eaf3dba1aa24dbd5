//! Failures between the gate and the service, and what they mean for a request.

use std::error::Error;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper_util::client::legacy;
use turno::lock::Language;
use turno::once::http::{Refusal, WorkOutcome};
use turno::problem::{Problem, ProblemCode};

use super::sending::SilentClient;

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing of the request was processed: there was no connection, or it closed before anything was written.
    Unsent,
    /// The connection broke after a part of the request may have been sent.
    Broken,
    /// The response did not begin in time.
    Late,
    /// The client sent nothing of its body for too long.
    Silent,
    /// The gate does not support the request.
    Unsupported,
}

impl Failure {
    /// Classifies an error of the HTTP client. It is [`Failure::Broken`] unless it is certain that nothing was processed.
    pub(super) fn of(error: &legacy::Error) -> Self {
        if error.is_connect() {
            return Failure::Unsent;
        }
        let mut cause = error.source();
        while let Some(error) = cause {
            if error.is::<SilentClient>() {
                return Failure::Silent;
            }
            // The request was cancelled before its first byte was written.
            let is_canceled = error
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_canceled);
            // RFC 9113, section 8.7: REFUSED_STREAM means that nothing was processed.
            let is_refused = error
                .downcast_ref::<h2::Error>()
                .is_some_and(|error| error.reason() == Some(h2::Reason::REFUSED_STREAM));
            if is_canceled || is_refused {
                return Failure::Unsent;
            }
            cause = error.source();
        }
        Failure::Broken
    }

    fn outcome(self) -> WorkOutcome {
        match self {
            Failure::Unsent | Failure::Unsupported => WorkOutcome::Undone,
            Failure::Broken | Failure::Late | Failure::Silent => WorkOutcome::Unknown,
        }
    }

    fn code(self) -> ProblemCode {
        match self {
            Failure::Unsent => ProblemCode::UpstreamUnreachable,
            Failure::Broken => ProblemCode::UpstreamBroken,
            Failure::Late => ProblemCode::UpstreamLate,
            Failure::Silent => ProblemCode::ClientTimeout,
            Failure::Unsupported => ProblemCode::NotSupported,
        }
    }

    /// Returns the response to the client. Its extensions tell the once layer whether the outcome is known, and which template of
    /// the route replaces the response.
    pub(super) fn response(self, language: Language) -> Response<Full<Bytes>> {
        let mut response = Problem::new(self.code()).to_response(language);
        response.extensions_mut().insert(self.outcome());
        if let Some(refusal) = Refusal::of(self.code()) {
            response.extensions_mut().insert(refusal);
        }
        response
    }
}
