//! `/v1/whoami`

use std::sync::Arc;

use turno_api::admin::Whoami;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::Reader;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(whoami))
}

/// Name, role and prefix of the caller.
#[utoipa::path(
    get,
    path = "/v1/whoami",
    operation_id = "whoami",
    tag = "admin",
    responses(
        (status = 200, body = Whoami),
    ),
)]
async fn whoami(Reader(caller): Reader) -> axum::Json<Whoami> {
    axum::Json(caller.whoami())
}
