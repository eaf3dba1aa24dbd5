//! `/v1/once-keys`, and the list of keys

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use turno::once::{OnceList, OnceResolved, OnceState};
use turno_client::wire::{Forgotten, Keys, Known, Problem as Told, Resolve, next, rules};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::serve::App;
use crate::serve::ask::{Json, Name, Query, limit, printable};
use crate::serve::caller::{Admin, Reader};
use crate::serve::problem::Problem;
use crate::serve::words::Code;

/// The detail for a key that the store does not know.
const NOT_KNOWN: &str =
    "nothing is known of this key: the next caller that begins it does the work";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(status, forget, resolve))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only keys in this state; all, if not said.
    #[param(inline)]
    state: Option<OnceState>,
    /// Only keys that begin with this.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    prefix: String,
    /// At most so many; 100, if not said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only keys after this one: `next` of the page before.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    after: String,
}

/// The keys that are in flight, done or unknown, in order; without their answers.
#[utoipa::path(
    get,
    path = "/v1/once",
    operation_id = "once_list",
    tag = "once",
    params(Page),
    responses(
        (status = 200, body = Keys),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
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

/// What is known of a key, with its answer.
#[utoipa::path(
    get,
    path = "/v1/once-keys/{*key}",
    operation_id = "once_status",
    tag = "once",
    params(("key" = rules::Name, Path, description = "The identity of the request")),
    responses(
        (status = 200, body = Known),
        (status = 404, body = Told, content_type = "application/problem+json", description = "`not_found`: nothing is known of it"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn status(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(key): Name,
) -> Result<axum::Json<Known>, Problem> {
    caller.scope("key", &key)?;
    match app.turno.once(&key).status().await? {
        Some(view) => Ok(axum::Json(Known::of(&view)?)),
        None => Err(Problem::new(Code::NotFound).because(NOT_KNOWN)),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Because {
    /// Who does it; the name of the access token, if not said.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    user: Option<String>,
    /// Why; it goes into the history.
    #[param(
        min_length = 1,
        max_length = 1000,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    reason: Option<String>,
}

/// Forgets a key that is done or unknown: whoever asks next does the work.
#[utoipa::path(
    delete,
    path = "/v1/once-keys/{*key}",
    operation_id = "once_forget",
    tag = "once",
    params(("key" = rules::Name, Path, description = "The identity of the request"), Because),
    responses(
        (status = 200, body = Forgotten),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn forget(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(key): Name,
    Query(because): Query<Because>,
) -> Result<axum::Json<Forgotten>, Problem> {
    caller.scope("key", &key)?;
    let mut once = app.turno.once(key).user(caller.user(because.user));
    if let Some(reason) = because.reason {
        once = once.reason(reason);
    }
    let forgotten = once.forget().await?;
    Ok(axum::Json(Forgotten { forgotten }))
}

/// Says that the work of an unknown key was done: from then on the key is done, with this answer.
#[utoipa::path(
    put,
    path = "/v1/once-keys/{*key}",
    operation_id = "once_resolve",
    tag = "once",
    params(("key" = rules::Name, Path, description = "The identity of the request")),
    responses(
        (status = 204, description = "The key is done, and the claim of the run that vanished is stale"),
        (status = 404, body = Told, content_type = "application/problem+json", description = "`not_found`: nothing is known of it"),
        (status = 409, body = Told, content_type = "application/problem+json", description = "`in_flight`: a run has a live lease; `answered`: the key has an answer"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
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
    let answer = ask.answer.as_deref().map(|answer| answer.get());
    match once.resolve(answer).await? {
        OnceResolved::Resolved => Ok(StatusCode::NO_CONTENT),
        OnceResolved::InFlight(run) => Err(Problem::in_flight(key, run).because(
            "a run of this key has a live lease: wait until it ends, or until its lease is over",
        )),
        OnceResolved::Answered => Err(Problem::new(Code::Answered)),
        OnceResolved::NotFound => Err(Problem::new(Code::NotFound).because(NOT_KNOWN)),
    }
}
