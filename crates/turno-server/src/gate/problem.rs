//! Error responses of the gate: RFC 9457, with a stable code.

use bytes::Bytes;
use http::header::{CONTENT_LANGUAGE, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::json;
use turno::lock::Language;

/// A problem, with its text in both languages.
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    /// Title and detail. The detail says what to do next.
    pub(crate) english: (&'static str, &'static str),
    pub(crate) spanish: (&'static str, &'static str),
}

impl Problem {
    pub(crate) fn response(&self, language: Language) -> Response<Full<Bytes>> {
        let ((title, detail), tag) = match language {
            Language::English => (self.english, "en"),
            Language::Spanish => (self.spanish, "es"),
        };
        let body = json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": detail,
        });
        let mut response = Response::new(Full::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(tag));
        response
    }
}
