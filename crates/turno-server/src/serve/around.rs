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
use turno::once::http::language;
use uuid::Uuid;

use super::access::Asks;
use super::metrics::tally;
use super::problem::{self, Problem};
use super::telemetry;
use super::words::Code;
use super::{App, dashboard};

/// Header with the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a request id that the caller chose, in bytes.
const LONGEST_ID: usize = 128;

/// Wraps the routes in the middleware. All of it is one layer, because each layer costs a clone of a service and a boxed future
/// per request.
pub(super) fn layers(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes
        .fallback(async || Problem::new(Code::NotFound))
        .method_not_allowed_fallback(async || Problem::new(Code::MethodNotAllowed))
        .layer(DefaultBodyLimit::max(app.options.max_body))
        .layer(from_fn_with_state(app.clone(), attend))
}

/// Assigns request id and language, and renders the problem of the response, if it has one.
async fn attend(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let language = language(request.headers());
    let began = Instant::now();
    let in_flight = app.metrics.asked(&request);
    let asked = tally::Asked::of(&request);
    let span = telemetry::span(&app, &request, id.to_str().unwrap_or_default());
    // A panic in one request must not end the other requests of the connection.
    let answered = AssertUnwindSafe(admit(&app, request, next)).catch_unwind();
    let mut response = answered
        .instrument(span.clone())
        .await
        .unwrap_or_else(|_| Problem::new(Code::Broken).into_response());
    // Before `render` turns the problem into text.
    asked.count(&app.metrics, &response);
    problem::render(&mut response, language, id.to_str().unwrap_or_default());
    span.in_scope(|| {
        tracing::debug!(status = response.status().as_u16(), took = ?began.elapsed(), "answered");
    });
    telemetry::answered(&app, &span, response.status());
    in_flight.answered(response.status());
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
        (1..=LONGEST_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    own.cloned().unwrap_or_else(|| {
        let new = Uuid::now_v7().to_string();
        HeaderValue::from_str(&new).unwrap_or_else(|_| HeaderValue::from_static("none"))
    })
}

/// Authenticates the caller and applies the limits.
async fn admit(app: &App, mut request: Request, next: Next) -> Response {
    if is_open(request.uri().path()) {
        return next.run(request).await;
    }
    let asks = Asks::of(&request);
    // Held until the head of the response is ready. The rest of the response has its own limits.
    let admitted = async {
        let room = app.limits.enter()?;
        let admitted = app.gatekeeper.admit(&asks).await?;
        app.limits.count(admitted.key)?;
        Ok::<_, Problem>((room, admitted.caller))
    };
    let (_room, caller) = match admitted.await {
        Ok(admitted) => admitted,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Whether a path needs no access token: the dashboard, the health checks and the API description.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/readyz" | "/openapi.json")
        || path.starts_with(dashboard::FOLDER)
}
