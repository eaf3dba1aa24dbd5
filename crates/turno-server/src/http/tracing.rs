//! The tracing span of a request, and its parent.

use std::borrow::Cow;

use axum::extract::{MatchedPath, Request};
use http::HeaderMap;
use tracing::Span;
use tracing::field::Empty;

/// Sets the parent of a request's span from the request's headers (`traceparent`). Called before any work is done in the span.
///
/// The server does not depend on a tracing system. A program that has set one up passes this function.
pub type SetSpanParent = fn(&Span, &HeaderMap);

/// Creates the span of a request.
pub(crate) fn span(set_parent: Option<SetSpanParent>, request: &Request, id: &str) -> Span {
    let route = route(request).unwrap_or_default();
    let route = route.as_ref();
    let span = tracing::info_span!(
        "request",
        id,
        method = %request.method(),
        route,
        otel.name = Empty,
        otel.kind = Empty,
        otel.status_code = Empty,
        http.request.method = Empty,
        http.route = Empty,
        http.response.status_code = Empty,
    );
    if let Some(set_parent) = set_parent {
        set_parent(&span, request.headers());
        // The names of OpenTelemetry's conventions. Logs do not need them: they have `method` and `route`.
        let method = request.method().as_str();
        span.record("otel.name", format!("{method} {route}").trim_end());
        span.record("otel.kind", "server");
        span.record("http.request.method", method);
        span.record("http.route", route);
    }
    span
}

/// Returns the pattern of a request's path, as in OpenAPI. Never the path itself, because names are data of the callers.
pub(crate) fn route(request: &Request) -> Option<Cow<'_, str>> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    Some(if path.contains("{*") {
        path.replace("{*", "{").into()
    } else {
        path.into()
    })
}

/// Records the status of the response.
pub(crate) fn record_status(span: &Span, status: http::StatusCode) {
    span.record("http.response.status_code", i64::from(status.as_u16()));
    // For a server span, only its own failures are errors.
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}
