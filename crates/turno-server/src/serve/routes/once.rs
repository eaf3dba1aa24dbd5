//! `/v1/once`: runs of a key, and their claims

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use turno::once::{Begin as Taken, DEFAULT_LEASE, Once, OnceClaim, OnceSettled, Released};
use turno_api::duration;
use turno_api::json::raw;
use turno_api::once::{AfterUnknown, Begin, Begun, Complete, Extend, Replayed};
use turno_api::openapi_types;
use turno_api::problem::Problem as Told;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::serve::App;
use crate::serve::ask::{Json, MaybeJson, Name, Query};
use crate::serve::caller::{Caller, Operator};
use crate::serve::problem::Problem;
use crate::serve::words::Code;

/// Response header of an answer that was replayed.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(begin))
        .routes(routes!(complete, extend, release))
}

/// Takes the work of a key, or says what became of it.
#[utoipa::path(
    post,
    path = "/v1/once",
    operation_id = "once_begin",
    tag = "once",
    responses(
        (status = 201, body = Begun, description = "The work is yours: complete or release its claim"),
        (status = 200, body = Replayed, description = "It is done", headers(("idempotency-replayed" = String, description = "`true`"))),
        (status = 409, body = Told, content_type = "application/problem+json", description = "`in_flight`: somebody does it; `unknown`: somebody did it, and vanished half-way"),
        (status = 422, body = Told, content_type = "application/problem+json", description = "`mismatch`: the key is that of a request with other content; `invalid`"),
        (status = 429, body = Told, content_type = "application/problem+json", description = "`over_quota`: the scope has as many live keys as it may; `rate_limited`"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
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
    match app.patiently(once(&app, &caller, ask).begin()).await? {
        Taken::Fresh(claim) => {
            let grant = claim.grant().clone();
            // The client owns the run now: the server must not end it.
            drop(claim.detach());
            let begun = Begun {
                key: grant.claim.key.clone(),
                token: grant.claim.token,
                claim: grant.claim,
                attempt: grant.attempt,
                expires_at: grant.expires_at,
                remaining_ms: duration::ms(grant.remaining),
            };
            Ok((StatusCode::CREATED, axum::Json(begun)).into_response())
        }
        Taken::Replay(answer) => {
            let replayed = Replayed {
                stored: answer.text().is_some(),
                replay: answer.text().map(raw).transpose()?,
            };
            let header = (REPLAYED, HeaderValue::from_static("true"));
            Ok(([header], axum::Json(replayed)).into_response())
        }
        Taken::InFlight(run) => Err(Problem::in_flight(key, run)),
        Taken::Mismatch => Err(Problem::new(Code::Mismatch)),
        Taken::Unknown(run) => Err(Problem::unknown(key, run)),
        Taken::OverQuota => Err(Problem::new(Code::OverQuota)),
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
    if ask.unknown == Some(AfterUnknown::Rerun) {
        once = once.unknown(AfterUnknown::Rerun);
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
        OnceSettled::Stale => Err(Problem::new(Code::Stale)),
    }
}

/// Ends the work with its answer, or without one. Said twice, it is the same; the first answer stays.
#[utoipa::path(
    put,
    path = "/v1/once/{*claim}",
    operation_id = "once_complete",
    tag = "once",
    params(("claim" = openapi_types::OnceClaimName, Path, description = "The claim, as begin answered it")),
    responses(
        (status = 204, description = "It is done"),
        (status = 410, body = Told, content_type = "application/problem+json", description = "`stale`: somebody else's run counts, or it has ended"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn complete(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(name): Name,
    Json(ask): Json<Complete>,
) -> Result<StatusCode, Problem> {
    let claim = claim(&caller, &name)?;
    let answer = ask.answer.as_deref().map(|answer| answer.get());
    let ttl = ask.ttl.map(Into::into);
    settled(app.turno.once_complete(&claim, answer, ttl).await?)
}

/// Says that the work goes on.
#[utoipa::path(
    patch,
    path = "/v1/once/{*claim}",
    operation_id = "once_extend",
    tag = "once",
    params(("claim" = openapi_types::OnceClaimName, Path, description = "The claim, as begin answered it")),
    request_body(content = Option<Extend>),
    responses(
        (status = 204, description = "It lives longer"),
        (status = 410, body = Told, content_type = "application/problem+json", description = "`stale`: somebody else's run counts, or it has ended"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
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

/// What the run did before it was given back.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// Nothing: whoever asks next does the work.
    #[default]
    Undone,
    /// Perhaps something: whoever asks next is told so.
    Unknown,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GivenBack {
    /// What the run did; nothing, if not said.
    #[param(inline)]
    outcome: Option<Outcome>,
}

/// Gives the work back.
#[utoipa::path(
    delete,
    path = "/v1/once/{*claim}",
    operation_id = "once_release",
    tag = "once",
    params(("claim" = openapi_types::OnceClaimName, Path, description = "The claim, as begin answered it"), GivenBack),
    responses(
        (status = 204, description = "It is given back"),
        (status = 410, body = Told, content_type = "application/problem+json", description = "`stale`: somebody else's run counts, or it has ended"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn release(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(name): Name,
    Query(given_back): Query<GivenBack>,
) -> Result<StatusCode, Problem> {
    let claim = claim(&caller, &name)?;
    let released = match given_back.outcome.unwrap_or_default() {
        Outcome::Undone => Released::Undone,
        Outcome::Unknown => Released::Unknown,
    };
    settled(app.turno.once_release(&claim, released).await?)
}
