//! `/v1/once-keys`, and the list of keys

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use turno::once::{OnceList, OnceResolved, OnceState};
use turno::problem::ProblemCode;
use turno_api::once::{Forgotten, Keys, OnceView, Resolve};
use turno_api::openapi_types;
use turno_api::page::next;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::{Admin, Reader};
use crate::http::extract::{Json, Name, Query, limit, printable};
use crate::http::problem::Problem;

/// Detail of the problem of a key that does not exist.
const NO_KEY: &str = "this key does not exist: the next caller that begins it does the work";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(status, forget, resolve))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only keys in this state. Default: all states.
    #[param(inline)]
    state: Option<OnceState>,
    /// Only keys that begin with this.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    prefix: String,
    /// Maximum number of entries. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only keys after this one: `next` of the previous page.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    after: String,
}

/// Keys that are in flight, done or unknown, in order, without their answers.
#[utoipa::path(
    get,
    path = "/v1/once",
    operation_id = "once_list",
    tag = "once",
    params(Page),
    responses(
        (status = 200, body = Keys),
    ),
)]
async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Query(page): Query<Page>,
) -> Result<axum::Json<Keys>, Problem> {
    let limit = limit(page.limit)?;
    printable("after", &page.after)?;
    let ask = OnceList {
        state: page.state,
        prefix: caller.narrow(&page.prefix)?,
        after: page.after,
        limit,
    };
    let keys = app.turno.once_list(ask).await?;
    Ok(axum::Json(Keys {
        next: next(&keys, limit, |key| key.key.clone()),
        keys,
    }))
}

/// State of a key, with its answer.
#[utoipa::path(
    get,
    path = "/v1/once-keys/{*key}",
    operation_id = "once_status",
    tag = "once",
    params(("key" = openapi_types::Name, Path, description = "The once key")),
    responses(
        (status = 200, body = OnceView),
        (status = 404, description = "`not_found`: the key does not exist"),
    ),
)]
async fn status(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(key): Name,
) -> Result<axum::Json<OnceView>, Problem> {
    caller.scope("key", &key)?;
    match app.turno.once(&key).status().await? {
        Some(view) => Ok(axum::Json(view)),
        None => Err(Problem::new(ProblemCode::NotFound).because(NO_KEY)),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ForgetQuery {
    /// User, for the history. Default: the name of the access token.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    user: Option<String>,
    /// Reason, for the history.
    #[param(
        min_length = 1,
        max_length = 1000,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    reason: Option<String>,
}

/// Forgets a key that is done or unknown. The next caller does the work.
#[utoipa::path(
    delete,
    path = "/v1/once-keys/{*key}",
    operation_id = "once_forget",
    tag = "once",
    params(("key" = openapi_types::Name, Path, description = "The once key"), ForgetQuery),
    responses(
        (status = 200, body = Forgotten),
    ),
)]
async fn forget(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(key): Name,
    Query(query): Query<ForgetQuery>,
) -> Result<axum::Json<Forgotten>, Problem> {
    caller.scope("key", &key)?;
    let mut once = app.turno.once(key).user(caller.user(query.user));
    if let Some(reason) = query.reason {
        once = once.reason(reason);
    }
    let forgotten = once.forget().await?;
    Ok(axum::Json(Forgotten { forgotten }))
}

/// Resolves an unknown key: from then on it is done, with this answer.
#[utoipa::path(
    put,
    path = "/v1/once-keys/{*key}",
    operation_id = "once_resolve",
    tag = "once",
    params(("key" = openapi_types::Name, Path, description = "The once key")),
    responses(
        (status = 204, description = "The key is done, and the claim of the unknown run is stale"),
        (status = 404, description = "`not_found`: the key does not exist"),
        (status = 409, description = "`in_flight`: a run has a live lease; `answered`: the key has an answer"),
    ),
)]
async fn resolve(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(key): Name,
    Json(ask): Json<Resolve>,
) -> Result<StatusCode, Problem> {
    caller.scope("key", &key)?;
    let mut once = app.turno.once(&key).user(caller.user(ask.user));
    if let Some(reason) = ask.reason {
        once = once.reason(reason);
    }
    match once.resolve(ask.answer.as_deref()).await? {
        OnceResolved::Resolved => Ok(StatusCode::NO_CONTENT),
        OnceResolved::InFlight(run) => Err(Problem::in_flight(key, run).because(
            "a run of this key has a live lease: wait until it ends, or until its lease expires",
        )),
        OnceResolved::Answered => Err(Problem::new(ProblemCode::Answered)),
        OnceResolved::NotFound => Err(Problem::new(ProblemCode::NotFound).because(NO_KEY)),
    }
}
