//! The span of a request, and whose work it belongs to.

use std::borrow::Cow;

use axum::extract::{MatchedPath, Request};
use http::HeaderMap;
use tracing::Span;
use tracing::field::Empty;

use super::App;

/// Gives the span of a request the parent that the request's headers name (`traceparent`). Called before anything is done
/// in the span.
///
/// The server itself knows no tracing system: whoever starts it, and has set one up, says how.
pub type Adopt = fn(&Span, &HeaderMap);

/// The span of a request.
pub(super) fn span(app: &App, request: &Request, id: &str) -> Span {
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
    if let Some(adopt) = app.options.trace {
        adopt(&span, request.headers());
        // What the conventions of OpenTelemetry call these; no use in a log, which has them already.
        let method = request.method().as_str();
        span.record("otel.name", format!("{method} {route}").trim_end());
        span.record("otel.kind", "server");
        span.record("http.request.method", method);
        span.record("http.route", route);
    }
    span
}

/// The pattern of a request's path, as OpenAPI writes it, and never the path: names are the callers' business.
pub(super) fn route(request: &Request) -> Option<Cow<'_, str>> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    Some(if path.contains("{*") {
        path.replace("{*", "{").into()
    } else {
        path.into()
    })
}

/// How it ended.
pub(super) fn answered(app: &App, span: &Span, status: http::StatusCode) {
    if app.options.trace.is_none() {
        return;
    }
    span.record("http.response.status_code", i64::from(status.as_u16()));
    // To a server, only its own failures are errors.
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}
