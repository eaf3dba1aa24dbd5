//! `/healthz`, `/readyz`, `/openapi.json`

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use turno_api::admin::Health;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::openapi;
use crate::app::App;
use crate::auth::gatekeeper::CurrentAdmission;

/// The OpenAPI description as JSON, serialized once.
static DESCRIPTION: LazyLock<Bytes> = LazyLock::new(|| serialize(&openapi()));

/// The same for a server that requires no token.
static OPEN_DESCRIPTION: LazyLock<Bytes> = LazyLock::new(|| {
    let mut api = openapi();
    api.security = None;
    serialize(&api)
});

fn serialize(api: &OpenApi) -> Bytes {
    api.to_json().unwrap_or_default().into()
}

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(alive))
        .routes(routes!(ready))
        .routes(routes!(description))
}

fn health(status: &str, detail: Option<&str>) -> axum::Json<Health> {
    axum::Json(Health {
        status: status.to_owned(),
        detail: detail.map(str::to_owned),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Whether the process is alive. Does not depend on the store.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    security(()),
    responses(
        (status = 200, body = Health),
    ),
)]
async fn alive() -> axum::Json<Health> {
    health("ok", None)
}

/// Whether the server can process requests: the store is available, and the server is not shutting down.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    security(()),
    responses(
        (status = 200, body = Health),
        (
            status = 503,
            body = Health,
            description = "Not ready; `detail` has the reason",
            headers(("retry-after" = u64, description = "Number of seconds until the next check")),
        ),
    ),
)]
async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.readiness().await {
        Ok(()) => health("ok", None).into_response(),
        Err(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            [(RETRY_AFTER, "1")],
            health("unavailable", Some(why)),
        )
            .into_response(),
    }
}

/// This description, in OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "health",
    security(()),
    responses(
        (status = 200, body = serde_json::Value, content_type = "application/json"),
    ),
)]
async fn description(State(app): State<Arc<App>>) -> Response {
    let text = match app.gatekeeper.current_admission().await {
        Ok(CurrentAdmission::Local | CurrentAdmission::All) => &OPEN_DESCRIPTION,
        // Also if the store is unavailable: most servers require tokens.
        Ok(CurrentAdmission::Token) | Err(_) => &DESCRIPTION,
    };
    ([(CONTENT_TYPE, "application/json")], Bytes::clone(text)).into_response()
}
