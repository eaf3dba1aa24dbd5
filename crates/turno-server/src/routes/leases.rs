//! `/v1/leases`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use turno::lock::{LeaseId, ReleaseOutcome, RenewOutcome};
use turno::problem::ProblemCode;
use turno_api::lock::{Renew, RenewedLease};
use turno_api::openapi_types;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::app::App;
use crate::auth::caller::Operator;
use crate::http::extract::{MaybeJson, Name, Query};
use crate::http::problem::Problem;

/// Response header with the number of holds that are left.
const HOLDS: HeaderName = HeaderName::from_static("turno-holds");

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(renew, release))
}

/// Renews a lease. Never shortens it, and never acquires one.
///
/// The response has no `owner`, `holds` and `acquired_at`: reading them would make each renewal slower. They are in the status
/// of the lock.
#[utoipa::path(
    put,
    path = "/v1/leases/{*id}",
    operation_id = "lock_renew",
    tag = "locks",
    params(("id" = openapi_types::LeaseName, Path, description = "The lease that acquire returned")),
    request_body(content = Option<Renew>),
    responses(
        (status = 200, body = RenewedLease),
        (status = 410, description = "`lost`: the lease has expired, was released or was broken"),
    ),
)]
async fn renew(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(id): Name,
    MaybeJson(ask): MaybeJson<Renew>,
) -> Result<axum::Json<RenewedLease>, Problem> {
    let id: LeaseId = id.parse()?;
    caller.scope("lease", &id.resource)?;
    let ttl = ask.ttl.map_or(app.turno.settings().ttl, Into::into);
    match app
        .turno
        .lock(&id.resource)
        .ttl(ttl)
        .renew(id.token)
        .await?
    {
        RenewOutcome::Lost => Err(Problem::new(ProblemCode::Lost)),
        RenewOutcome::Renewed {
            expires_at,
            remaining,
        } => Ok(axum::Json(RenewedLease {
            resource: id.resource.clone(),
            token: id.token,
            owner: None,
            holds: None,
            acquired_at: None,
            expires_at,
            remaining,
            id,
        })),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReleaseQuery {
    /// The hold that is released, by the `request` that acquired it. Default: the newest hold.
    hold: Option<Uuid>,
    /// Request id. A repeated request changes nothing more.
    request: Option<Uuid>,
}

/// Releases one hold of a lease.
#[utoipa::path(
    delete,
    path = "/v1/leases/{*id}",
    operation_id = "lock_release",
    tag = "locks",
    params(("id" = openapi_types::LeaseName, Path, description = "The lease that acquire returned"), ReleaseQuery),
    responses(
        (status = 204, description = "Released", headers(("turno-holds" = u32, description = "Number of holds that the owner still has"))),
        (status = 410, description = "`lost`: the lease has expired, was released or was broken"),
    ),
)]
async fn release(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(id): Name,
    Query(query): Query<ReleaseQuery>,
) -> Result<Response, Problem> {
    let id: LeaseId = id.parse()?;
    caller.scope("lease", &id.resource)?;
    let mut lock = app.turno.lock(id.resource);
    if let Some(hold) = query.hold {
        lock = lock.hold(hold);
    }
    if let Some(request) = query.request {
        lock = lock.request(request);
    }
    match lock.release(id.token).await? {
        ReleaseOutcome::Lost => Err(Problem::new(ProblemCode::Lost)),
        ReleaseOutcome::Released { holds } => {
            Ok((StatusCode::NO_CONTENT, [(HOLDS, HeaderValue::from(holds))]).into_response())
        }
    }
}
