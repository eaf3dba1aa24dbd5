//! `/v1/once`: runs of a key, and their claims

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use turno::once::{Begin as BeginOutcome, DEFAULT_LEASE, Once, OnceClaim, OnceSettled, Released};
use turno::problem::ProblemCode;
use turno_api::once::{Begin, Begun, Complete, Extend, Replayed};
use turno_api::openapi_types;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::{Caller, Operator};
use crate::http::extract::{Json, MaybeJson, Name, Query};
use crate::http::problem::Problem;

/// Response header of an answer that was replayed.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(begin))
        .routes(routes!(complete, extend, release))
}

/// Begins the run of a key, or returns what became of an earlier one.
#[utoipa::path(
    post,
    path = "/v1/once",
    operation_id = "once_begin",
    tag = "once",
    responses(
        (status = 201, body = Begun, description = "Begun: do the work, then complete or release the claim"),
        (status = 200, body = Replayed, description = "Done", headers(("idempotency-replayed" = String, description = "`true`"))),
        (status = 409, description = "`in_flight`: another run has not ended; `unknown`: the lease of an earlier run expired without an answer"),
        (status = 422, description = "`mismatch`: the key belongs to a request with other content; `invalid`"),
        (status = 429, description = "`over_quota`: the scope has reached its quota of live keys; `rate_limited`"),
    ),
)]
async fn begin(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Json(ask): Json<Begin>,
) -> Result<Response, Problem> {
    caller.scope("key", &ask.key)?;
    // A caller must not use up the quota of other callers.
    if let Some(quota) = &ask.quota {
        caller.scope("quota.scope", &quota.scope)?;
    }
    let key = ask.key.clone();
    match app.until_shutdown(once(&app, &caller, ask).begin()).await? {
        BeginOutcome::Fresh(claim) => {
            let grant = claim.grant().clone();
            // The client owns the run now: the server must not end it.
            drop(claim.detach());
            let begun = Begun {
                key: grant.claim.key.clone(),
                token: grant.claim.token,
                grant,
            };
            Ok((StatusCode::CREATED, axum::Json(begun)).into_response())
        }
        BeginOutcome::Replay(answer) => {
            let replayed = Replayed {
                stored: answer.text().is_some(),
                replay: answer.text().map(Into::into),
            };
            let header = (REPLAYED, HeaderValue::from_static("true"));
            Ok(([header], axum::Json(replayed)).into_response())
        }
        BeginOutcome::InFlight(run) => Err(Problem::in_flight(key, run)),
        BeginOutcome::Mismatch => Err(Problem::new(ProblemCode::Mismatch)),
        BeginOutcome::Unknown(run) => Err(Problem::unknown(key, run)),
        BeginOutcome::OverQuota => Err(Problem::new(ProblemCode::OverQuota)),
    }
}

fn once(app: &App, caller: &Caller, ask: Begin) -> Once {
    let mut once = app.turno.once(ask.key);
    // The client does the work, so the worker is not the server's own host and process.
    once = once.worker(ask.worker.unwrap_or_else(|| caller.name.to_string()));
    if let Some(fingerprint) = ask.fingerprint {
        once = once.fingerprint(fingerprint);
    }
    if let Some(lease) = ask.lease {
        once = once.lease(lease.0);
    }
    if let Some(ttl) = ask.ttl {
        once = once.ttl(ttl.0);
    }
    if let Some(wait) = ask.wait {
        once = once.wait(app.wait(wait.0));
    }
    if let Some(unknown) = ask.unknown {
        once = once.unknown(unknown);
    }
    if let Some(quota) = ask.quota {
        once = once.quota(quota.scope, quota.most);
    }
    match ask.request {
        Some(request) => once.request(request),
        None => once,
    }
}

/// Returns the claim in the path, if the caller's prefix permits it.
fn claim(caller: &Caller, name: &str) -> Result<OnceClaim, Problem> {
    let claim: OnceClaim = name.parse()?;
    caller.scope("claim", &claim.key)?;
    Ok(claim)
}

fn settled(settled: OnceSettled) -> Result<StatusCode, Problem> {
    match settled {
        OnceSettled::Done => Ok(StatusCode::NO_CONTENT),
        OnceSettled::Stale => Err(Problem::new(ProblemCode::Stale)),
    }
}

/// Ends the run with its answer, or without one. If it is repeated, the first answer stays.
#[utoipa::path(
    put,
    path = "/v1/once/{*claim}",
    operation_id = "once_complete",
    tag = "once",
    params(("claim" = openapi_types::OnceClaimName, Path, description = "The claim that begin returned")),
    responses(
        (status = 204, description = "Done"),
        (status = 410, description = "`stale`: another run counts, or the run has ended"),
    ),
)]
async fn complete(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(name): Name,
    Json(ask): Json<Complete>,
) -> Result<StatusCode, Problem> {
    let claim = claim(&caller, &name)?;
    let answer = ask.answer.as_deref();
    let ttl = ask.ttl.map(Into::into);
    settled(app.turno.once_complete(&claim, answer, ttl).await?)
}

/// Extends the lease of a run.
#[utoipa::path(
    patch,
    path = "/v1/once/{*claim}",
    operation_id = "once_extend",
    tag = "once",
    params(("claim" = openapi_types::OnceClaimName, Path, description = "The claim that begin returned")),
    request_body(content = Option<Extend>),
    responses(
        (status = 204, description = "Extended"),
        (status = 410, description = "`stale`: another run counts, or the run has ended"),
    ),
)]
async fn extend(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(name): Name,
    MaybeJson(ask): MaybeJson<Extend>,
) -> Result<StatusCode, Problem> {
    let claim = claim(&caller, &name)?;
    let lease = ask.lease.map_or(DEFAULT_LEASE, Into::into);
    settled(app.turno.once_extend(&claim, lease).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReleaseQuery {
    /// What the run did. Default: `undone`.
    #[param(inline)]
    outcome: Option<Released>,
}

/// Releases a run without an answer.
#[utoipa::path(
    delete,
    path = "/v1/once/{*claim}",
    operation_id = "once_release",
    tag = "once",
    params(("claim" = openapi_types::OnceClaimName, Path, description = "The claim that begin returned"), ReleaseQuery),
    responses(
        (status = 204, description = "Released"),
        (status = 410, description = "`stale`: another run counts, or the run has ended"),
    ),
)]
async fn release(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(name): Name,
    Query(query): Query<ReleaseQuery>,
) -> Result<StatusCode, Problem> {
    let claim = claim(&caller, &name)?;
    let released = query.outcome.unwrap_or_default();
    settled(app.turno.once_release(&claim, released).await?)
}
