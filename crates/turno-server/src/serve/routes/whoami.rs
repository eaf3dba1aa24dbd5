//! `/v1/whoami`

use std::sync::Arc;

use turno_api::admin::Whoami;
use turno_api::problem::Problem as Told;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::serve::App;
use crate::serve::caller::Reader;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(whoami))
}

/// Who asks, and what they may do: so that a page offers nothing else.
#[utoipa::path(
    get,
    path = "/v1/whoami",
    operation_id = "whoami",
    tag = "people",
    responses(
        (status = 200, body = Whoami),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn whoami(Reader(caller): Reader) -> axum::Json<Whoami> {
    axum::Json(caller.whoami())
}
