//! `/v1/history`

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use turno::history::{self, Part};
use turno_api::history::HistoryPage;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::Reader;
use crate::http::extract::{Query, limit};
use crate::http::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HistoryQuery {
    /// Only entries of this component. Default: all components.
    #[param(inline)]
    part: Option<Part>,
    /// Only entries of this resource, queue or key. Default: all.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    resource: Option<String>,
    /// Only names that begin with this. Entries of the outbox have no name.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    prefix: String,
    /// Maximum number of entries. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only entries after this one: `next` of the previous page.
    after: Option<i64>,
}

/// The audit log, newest first: held and ended locks, and operator actions.
#[utoipa::path(
    get,
    path = "/v1/history",
    operation_id = "history",
    tag = "admin",
    params(HistoryQuery),
    responses(
        (status = 200, body = HistoryPage),
    ),
)]
async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Query(query): Query<HistoryQuery>,
) -> Result<axum::Json<HistoryPage>, Problem> {
    if let Some(resource) = &query.resource {
        caller.scope("resource", resource)?;
    }
    let limit = limit(query.limit)?;
    let ask = history::History {
        part: query.part,
        resource: query.resource,
        prefix: caller.narrow(&query.prefix)?,
        before: query.after,
        limit,
    };
    let history = app.turno.history(ask).await?;
    let ended = history.iter().filter(|entry| entry.id.is_some()).count();
    let next = history
        .last()
        .and_then(|entry| entry.id)
        .filter(|_| ended >= limit as usize);
    Ok(axum::Json(HistoryPage { history, next }))
}
