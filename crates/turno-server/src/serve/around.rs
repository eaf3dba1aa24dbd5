//! What stands around every request: an id, a language, a bound, and a look at who asks.

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

/// The header that names a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id of a caller's own that is taken over.
const LONGEST_ID: usize = 128;

/// Puts everything around the routes. It is one layer: each is a service that is copied, and a future that is boxed, for every
/// request.
pub(super) fn layers(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes
        .fallback(async || Problem::new(Code::NotFound))
        .method_not_allowed_fallback(async || Problem::new(Code::MethodNotAllowed))
        .layer(DefaultBodyLimit::max(app.options.max_body))
        .layer(from_fn_with_state(app.clone(), attend))
}

/// Gives the request its id and its language, and writes its problem, if it comes to one.
async fn attend(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let language = language(request.headers());
    let began = Instant::now();
    let in_flight = app.metrics.asked(&request);
    let asked = tally::Asked::of(&request);
    let span = telemetry::span(&app, &request, id.to_str().unwrap_or_default());
    // A bug in one request must not take the connection's others with it.
    let answered = AssertUnwindSafe(admit(&app, request, next)).catch_unwind();
    let mut response = answered
        .instrument(span.clone())
        .await
        .unwrap_or_else(|_| Problem::new(Code::Broken).into_response());
    // While a problem is still one, and no text.
    asked.count(&app.metrics, &response);
    problem::render(&mut response, language, id.to_str().unwrap_or_default());
    span.in_scope(|| {
        tracing::debug!(status = response.status().as_u16(), took = ?began.elapsed(), "answered");
    });
    telemetry::answered(&app, &span, response.status());
    in_flight.answered(response.status());
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    // What is true now may not be in a moment; and an answer is what it says it is, whoever's names are in it.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The caller's own id, if it is a sane one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let own = headers.get(REQUEST_ID).filter(|id| {
        (1..=LONGEST_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    own.cloned().unwrap_or_else(|| {
        let new = Uuid::now_v7().to_string();
        HeaderValue::from_str(&new).unwrap_or_else(|_| HeaderValue::from_static("none"))
    })
}

/// Looks at who asks, and whether there is room for it.
async fn admit(app: &App, mut request: Request, next: Next) -> Response {
    if is_open(request.uri().path()) {
        return next.run(request).await;
    }
    let asks = Asks::of(&request);
    // Held until the answer's head is there: what is sent after that has bounds of its own.
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

/// What is everybody's: how the server is, and what can be asked.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/readyz" | "/openapi.json")
        || path.starts_with(dashboard::FOLDER)
}
