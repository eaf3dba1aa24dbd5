//! `/v1/leases`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use turno::lock::{LeaseId, ReleaseOutcome, RenewOutcome};
use turno_client::wire::{self, Lease, Problem as Told, Renew};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::serve::App;
use crate::serve::ask::{MaybeJson, Name, Query};
use crate::serve::caller::Operator;
use crate::serve::problem::Problem;
use crate::serve::words::Code;

/// Response header with the number of holds that are left.
const HOLDS: HeaderName = HeaderName::from_static("turno-holds");

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(renew, release))
}

/// Lengthens a lease. Never shortens one, never takes one.
///
/// The answer says what has changed: `owner`, `holds` and `acquired_at`, which have not, are left out. Who needs them looks
/// at the lock; a renewal is asked for too often to look each time.
#[utoipa::path(
    put,
    path = "/v1/leases/{*id}",
    operation_id = "lock_renew",
    tag = "locks",
    params(("id" = wire::rules::LeaseName, Path, description = "The lease, as acquire answered it")),
    request_body(content = Option<Renew>),
    responses(
        (status = 200, body = Lease),
        (status = 410, body = Told, content_type = "application/problem+json", description = "`lost`: it has expired, was released or broken"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn renew(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(id): Name,
    MaybeJson(ask): MaybeJson<Renew>,
) -> Result<axum::Json<Lease>, Problem> {
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
        RenewOutcome::Lost => Err(Problem::new(Code::Lost)),
        RenewOutcome::Renewed {
            expires_at,
            remaining,
        } => Ok(axum::Json(Lease {
            resource: id.resource.clone(),
            token: id.token,
            owner: None,
            holds: None,
            acquired_at: None,
            expires_at,
            remaining_ms: wire::ms(remaining),
            id,
        })),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// The hold that is given back, by the `request` that took it; the newest one, if not said.
    hold: Option<Uuid>,
    /// The identity of this request: sent twice, it changes nothing more.
    request: Option<Uuid>,
}

/// Gives back one hold of a lease.
#[utoipa::path(
    delete,
    path = "/v1/leases/{*id}",
    operation_id = "lock_release",
    tag = "locks",
    params(("id" = wire::rules::LeaseName, Path, description = "The lease, as acquire answered it"), Which),
    responses(
        (status = 204, description = "Given back", headers(("turno-holds" = u32, description = "How many holds the owner still has"))),
        (status = 410, body = Told, content_type = "application/problem+json", description = "`lost`: it has expired, was released or broken"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn release(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(id): Name,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let id: LeaseId = id.parse()?;
    caller.scope("lease", &id.resource)?;
    let mut lock = app.turno.lock(id.resource);
    if let Some(hold) = which.hold {
        lock = lock.hold(hold);
    }
    if let Some(request) = which.request {
        lock = lock.request(request);
    }
    match lock.release(id.token).await? {
        ReleaseOutcome::Lost => Err(Problem::new(Code::Lost)),
        ReleaseOutcome::Released { holds } => {
            Ok((StatusCode::NO_CONTENT, [(HOLDS, HeaderValue::from(holds))]).into_response())
        }
    }
}
