//! What stands around every request: an id, a language, a bound, and a look at who asks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Instrument as _;
use turno::once::http::language;
use uuid::Uuid;

use super::App;
use super::problem::{self, Problem};
use super::words::Code;

/// The header that names a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id of a caller's own that is taken over.
const LONGEST_ID: usize = 128;

/// Puts everything around the routes.
pub(super) fn layers(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes
        .fallback(async || Problem::new(Code::NotFound))
        .method_not_allowed_fallback(async || Problem::new(Code::MethodNotAllowed))
        .layer(DefaultBodyLimit::max(app.options.max_body))
        .layer(from_fn_with_state(app.clone(), admit))
        .layer(from_fn_with_state(app.clone(), attend))
}

/// Gives the request its id and its language, and writes its problem, if it comes to one.
async fn attend(State(_app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let language = language(request.headers());
    let began = Instant::now();
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        method = %request.method(),
        // The pattern, not the path: names are the callers' business.
        route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str),
    );
    // A bug in one request must not take the connection's others with it.
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind();
    let mut response = answered
        .instrument(span.clone())
        .await
        .unwrap_or_else(|_| Problem::new(Code::Broken).into_response());
    problem::render(&mut response, language, id.to_str().unwrap_or_default());
    span.in_scope(|| {
        tracing::debug!(status = response.status().as_u16(), took = ?began.elapsed(), "answered");
    });
    response.headers_mut().insert(REQUEST_ID, id);
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

/// Looks at who asks.
async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    if !is_open(request.uri().path()) {
        match app.gatekeeper.admit(request.headers()).await {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
            }
            Err(problem) => return problem.into_response(),
        }
    }
    next.run(request).await
}

/// What is everybody's: how the server is, and what can be asked.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/readyz" | "/openapi.json")
}
