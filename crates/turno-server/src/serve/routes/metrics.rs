//! `/metrics`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use turno_api::problem::Problem as Told;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::serve::App;
use crate::serve::caller::Reader;
use crate::serve::metrics;
use crate::serve::problem::Problem;
use crate::serve::words::Code;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(scrape))
}

/// What can be counted, for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "people",
    responses(
        (status = 200, body = String, content_type = "application/openmetrics-text", description = "In the OpenMetrics format; `turno_store_up` is 0 if the store does not answer"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn scrape(State(app): State<Arc<App>>, Reader(caller): Reader) -> Result<Response, Problem> {
    caller.unscoped()?;
    let text = app.metrics.render().await;
    let text = text.map_err(|_| Problem::new(Code::Broken))?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
