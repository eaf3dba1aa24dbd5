//! Middleware of every request: request id, language, limits and authentication.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Instrument as _;
use turno::problem::{ProblemCode, language};
use uuid::Uuid;

use super::problem::{self, Problem};
use super::tracing::{record_status, span};
use crate::app::App;

/// Header with the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a request id that the caller chose, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 128;
/// Folder of the dashboard's files. They need no token; the data that they show does.
const DASHBOARD_FOLDER: &str = "/dashboard/";

/// Wraps the routes in the middleware. All of it is one layer, because each layer costs a clone of a service and a boxed future
/// per request.
pub(crate) fn layers(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes
        .fallback(async || Problem::new(ProblemCode::NotFound))
        .method_not_allowed_fallback(async || Problem::new(ProblemCode::MethodNotAllowed))
        .layer(DefaultBodyLimit::max(app.options.max_body))
        .layer(from_fn_with_state(app.clone(), handle))
}

/// Assigns request id and language, and renders the problem of the response, if it has one.
async fn handle(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let language = language(request.headers());
    let began = Instant::now();
    let in_flight = app.metrics.begin(&request);
    let span = span(
        app.options.set_span_parent,
        &request,
        id.to_str().unwrap_or_default(),
    );
    // A panic in one request must not end the other requests of the connection.
    let answered = AssertUnwindSafe(authorize(&app, request, next)).catch_unwind();
    let mut response = answered
        .instrument(span.clone())
        .await
        .unwrap_or_else(|_| Problem::new(ProblemCode::Broken).into_response());
    // Before `render` turns the problem into text.
    app.metrics.count_outcome(&in_flight, &response);
    problem::render(&mut response, language, id.to_str().unwrap_or_default());
    span.in_scope(|| {
        tracing::debug!(status = response.status().as_u16(), took = ?began.elapsed(), "answered");
    });
    if app.options.set_span_parent.is_some() {
        record_status(&span, response.status());
    }
    in_flight.end(response.status());
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    // The state may change at any time, so responses are not cached. `nosniff`: a name in a response must not change its type.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the caller's request id if it is valid, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let own = headers.get(REQUEST_ID).filter(|id| {
        (1..=MAX_REQUEST_ID_BYTES).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    own.cloned().unwrap_or_else(|| {
        let new = Uuid::now_v7().to_string();
        HeaderValue::from_str(&new).unwrap_or_else(|_| HeaderValue::from_static("none"))
    })
}

/// Authenticates the caller and applies the limits, unless the path is open to all callers.
async fn authorize(app: &App, mut request: Request, next: Next) -> Response {
    if is_open(request.uri().path()) {
        return next.run(request).await;
    }
    // The permit is held until the head of the response is ready. The rest of the response has its own limits.
    let (_permit, caller) = match app.authorize(&request).await {
        Ok(authorized) => authorized,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Whether a path needs no access token: the dashboard, the health checks and the API description.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/readyz" | "/openapi.json")
        || path.starts_with(DASHBOARD_FOLDER)
}
