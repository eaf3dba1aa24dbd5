//! `/v1/locks`, `/v1/lock-sets`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use turno::Token;
use turno::lock::{
    Acquire as Outcome, AcquireAll as SetOutcome, BreakOutcome, Grant, Lock, LockList, LockSet,
};
use turno::problem::ProblemCode;
use turno_api::lock::{Acquire, AcquireAll, AcquireOptions, Lease, Leases, Locks, Status};
use turno_api::openapi_types;
use turno_api::page::next;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::app::App;
use crate::auth::caller::{Admin, Operator, Reader};
use crate::http::extract::{Json, Name, Query, limit, printable};
use crate::http::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(acquire, list))
        .routes(routes!(acquire_all))
        .routes(routes!(status, break_lock))
}

/// Acquires a lock, or acquires it once more for its owner. If it is busy, the problem names the holder.
#[utoipa::path(
    post,
    path = "/v1/locks",
    operation_id = "lock_acquire",
    tag = "locks",
    responses(
        (status = 201, body = Lease, description = "Acquired"),
        (status = 200, body = Lease, description = "The owner held it already, and holds it once more"),
        (status = 409, description = "`busy`: another owner holds it"),
    ),
)]
async fn acquire(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Json(ask): Json<Acquire>,
) -> Result<Response, Problem> {
    caller.scope("resource", &ask.resource)?;
    match app.until_shutdown(lock(&app, ask)?.acquire()).await? {
        Outcome::Busy(busy) => Err(Problem::busy(busy)),
        Outcome::Acquired(lease) => {
            let answer = Lease::from(lease.grant());
            let status = created([lease.grant()]);
            // The client owns the lease now: the server must not release it.
            drop(lease.detach());
            Ok((status, axum::Json(answer)).into_response())
        }
    }
}

/// Returns 201 if a lock was acquired, or 200 if the owner held all of them already.
fn created<'a>(grants: impl IntoIterator<Item = &'a Grant>) -> StatusCode {
    if grants.into_iter().all(|grant| grant.reentered) {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    }
}

fn lock(app: &App, ask: Acquire) -> Result<Lock, Problem> {
    let (resource, options) = ask.into_options()?;
    Ok(with_options(app, app.turno.lock(resource), options))
}

fn with_options(app: &App, lock: Lock, mut options: AcquireOptions) -> Lock {
    options.wait = options.wait.map(|wait| app.wait(wait.0).into());
    // The client's process holds the lock, not the server's.
    lock.process(None, None).options(options)
}

/// Acquires several locks, all or none.
#[utoipa::path(
    post,
    path = "/v1/lock-sets",
    operation_id = "lock_acquire_all",
    tag = "locks",
    responses(
        (status = 201, body = Leases, description = "All are acquired"),
        (status = 200, body = Leases, description = "The owner held all of them already, and holds them once more"),
        (status = 409, description = "`busy`: another owner holds one of them; none was acquired"),
    ),
)]
async fn acquire_all(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Json(ask): Json<AcquireAll>,
) -> Result<Response, Problem> {
    for resource in &ask.resources {
        caller.scope("resources", resource)?;
    }
    match app.until_shutdown(lock_set(&app, ask).acquire()).await? {
        SetOutcome::Busy(busy) => Err(Problem::busy(busy)),
        SetOutcome::Acquired(leases) => {
            let grants = || leases.leases().iter().map(|lease| lease.grant());
            app.metrics.locks.count_grants(grants());
            let status = created(grants());
            let answer = Leases {
                leases: grants().map(Lease::from).collect(),
            };
            drop(leases.detach());
            Ok((status, axum::Json(answer)).into_response())
        }
    }
}

fn lock_set(app: &App, ask: AcquireAll) -> LockSet {
    let (resources, options) = ask.into_options();
    app.turno
        .locks(resources)
        .each(|lock| with_options(app, lock, options))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only names that begin with this.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    prefix: String,
    /// Maximum number of entries. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only names after this one: `next` of the previous page.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    after: String,
}

/// Held locks, ordered by name.
#[utoipa::path(
    get,
    path = "/v1/locks",
    operation_id = "lock_list",
    tag = "locks",
    params(Page),
    responses(
        (status = 200, body = Locks),
    ),
)]
async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Query(page): Query<Page>,
) -> Result<axum::Json<Locks>, Problem> {
    let limit = limit(page.limit)?;
    printable("after", &page.after)?;
    let ask = LockList {
        prefix: caller.narrow(&page.prefix)?,
        after: page.after,
        limit,
    };
    let locks = app.turno.lock_list(ask).await?;
    Ok(axum::Json(Locks {
        next: next(&locks, limit, |lock| lock.resource.clone()),
        locks,
    }))
}

/// Holder and waiters of a resource.
#[utoipa::path(
    get,
    path = "/v1/locks/{*resource}",
    operation_id = "lock_status",
    tag = "locks",
    params(("resource" = openapi_types::Name, Path, description = "Name of the resource")),
    responses(
        (status = 200, body = Status),
    ),
)]
async fn status(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(resource): Name,
) -> Result<axum::Json<Status>, Problem> {
    caller.scope("resource", &resource)?;
    let status = app.turno.lock(&resource).status().await?;
    Ok(axum::Json(status.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BreakQuery {
    /// Fencing token of the holder whose lease is broken.
    token: i64,
    /// Reason, for the history.
    #[param(
        min_length = 1,
        max_length = 1000,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    reason: String,
    /// User, for the history. Default: the name of the access token.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    user: Option<String>,
    /// Request id. A repeated request changes nothing more.
    request: Option<Uuid>,
}

/// Breaks a lock, for an operator. The caller names the fencing token of the holder and a reason.
#[utoipa::path(
    delete,
    path = "/v1/locks/{*resource}",
    operation_id = "lock_break",
    tag = "locks",
    params(("resource" = openapi_types::Name, Path, description = "Name of the resource"), BreakQuery),
    responses(
        (status = 204, description = "The lock is free"),
        (status = 409, description = "`not_held`: this token does not hold the lock"),
    ),
)]
async fn break_lock(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(resource): Name,
    Query(query): Query<BreakQuery>,
) -> Result<StatusCode, Problem> {
    caller.scope("resource", &resource)?;
    let mut lock = app.turno.lock(resource).user(caller.user(query.user));
    if let Some(request) = query.request {
        lock = lock.request(request);
    }
    match lock.force_break(Token(query.token), query.reason).await? {
        BreakOutcome::Broken => Ok(StatusCode::NO_CONTENT),
        BreakOutcome::NotHeld => Err(Problem::new(ProblemCode::NotHeld)),
    }
}
