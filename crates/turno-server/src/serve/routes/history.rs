//! `/v1/history`

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use turno::history::{self, Part};
use turno_api::history::HistoryPage;
use turno_api::problem::Problem as Told;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::serve::App;
use crate::serve::ask::{Query, limit};
use crate::serve::caller::Reader;
use crate::serve::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Of locks, of the inbox, of the outbox or of once keys; of all, if not said.
    #[param(inline)]
    part: Option<Part>,
    /// Of one resource, queue or key; of all, if not said.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    resource: Option<String>,
    /// Only names that begin with this. The outbox has no name.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    prefix: String,
    /// At most so many; 100, if not said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only what comes after this in the list: `next` of the page before.
    after: Option<i64>,
}

/// The audit trail, newest first: what became of locks, beginning with those that are held now, and what people did by hand.
#[utoipa::path(
    get,
    path = "/v1/history",
    operation_id = "history",
    tag = "people",
    params(Which),
    responses(
        (status = 200, body = HistoryPage),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Query(which): Query<Which>,
) -> Result<axum::Json<HistoryPage>, Problem> {
    if let Some(resource) = &which.resource {
        caller.scope("resource", resource)?;
    }
    let limit = limit(which.limit)?;
    let ask = history::History {
        part: which.part,
        resource: which.resource,
        prefix: caller.narrow(&which.prefix)?,
        before: which.after,
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
