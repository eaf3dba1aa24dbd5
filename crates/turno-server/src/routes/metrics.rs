//! `/metrics`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use turno::problem::ProblemCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::Reader;
use crate::http::problem::Problem;
use crate::metrics;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(scrape))
}

/// Metrics for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "admin",
    responses(
        (status = 200, body = String, content_type = "application/openmetrics-text", description = "In the OpenMetrics format; `turno_store_up` is 0 if the store is unavailable"),
    ),
)]
async fn scrape(State(app): State<Arc<App>>, Reader(caller): Reader) -> Result<Response, Problem> {
    caller.unscoped()?;
    let text = app.metrics.render().await;
    let text = text.map_err(|_| Problem::new(ProblemCode::Broken))?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
