//! `/v1/inbox/{queue}/complete`, `/fail`, `/extend`, `/give-back`

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use prometheus_client::metrics::counter::Counter;
use turno::CallOptions;
use turno::inbox::{ClaimId, Inbox};
use turno_api::inbox::{CompleteClaims, ExtendClaims, FailClaims, Settled};
use turno_api::openapi_types;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::app::App;
use crate::auth::caller::{Caller, Operator};
use crate::http::extract::{Json, Name, non_empty};
use crate::http::problem::Problem;
use crate::metrics;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(complete))
        .routes(routes!(fail))
        .routes(routes!(extend))
        .routes(routes!(give_back))
}

/// A request to settle claims: those that the caller may settle, and those that it may not.
struct SettleRequest<T> {
    app: Arc<App>,
    inbox: Inbox,
    options: CallOptions,
    claims: Vec<T>,
    /// All claims, in the order of the request.
    order: Vec<ClaimId>,
    /// Claims of other queues. They are reported as stale.
    elsewhere: Vec<ClaimId>,
}

impl<T: AsRef<ClaimId>> SettleRequest<T> {
    async fn new(
        app: Arc<App>,
        caller: &Caller,
        queue: String,
        claims: Vec<T>,
        request: Option<Uuid>,
    ) -> Result<Self, Problem> {
        caller.scope("queue", &queue)?;
        non_empty("claims", &claims)?;
        let order: Vec<ClaimId> = claims.iter().map(|claim| *claim.as_ref()).collect();
        let foreign = foreign(&app, caller, &queue, &order).await?;
        let (elsewhere, claims): (Vec<T>, Vec<T>) = claims
            .into_iter()
            .partition(|claim| foreign.contains(claim.as_ref()));
        Ok(SettleRequest {
            inbox: app.turno.inbox(queue),
            app,
            options: CallOptions::default().request(request),
            claims,
            order,
            elsewhere: elsewhere.iter().map(|claim| *claim.as_ref()).collect(),
        })
    }

    /// Counts the outcomes and returns the response, with the stale claims in the order of the request.
    fn response(
        &self,
        settled: impl IntoIterator<Item = Settled>,
        counter: fn(&metrics::Inbox) -> &Counter,
    ) -> axum::Json<Settled> {
        let mut response = Settled::default();
        // With a count per claim: a claim that occurs twice in the request is stale only the second time.
        let mut stale: HashMap<ClaimId, usize> = HashMap::new();
        let mut count = |claims: &[ClaimId]| {
            for claim in claims {
                *stale.entry(*claim).or_default() += 1;
            }
        };
        count(&self.elsewhere);
        for settled in settled {
            response.done += settled.done;
            count(&settled.stale);
        }
        for claim in self.order.iter().rev() {
            if let Some(left @ 1..) = stale.get_mut(claim) {
                *left -= 1;
                response.stale.push(*claim);
            }
        }
        response.stale.reverse();
        let inbox = &self.app.metrics.inbox;
        counter(inbox).inc_by(response.done);
        inbox.stale.inc_by(response.stale.len() as u64);
        axum::Json(response)
    }
}

/// Returns the claims whose items are in another queue than the caller names. Not needed for callers without a prefix.
async fn foreign(
    app: &App,
    caller: &Caller,
    queue: &str,
    claims: &[ClaimId],
) -> Result<HashSet<ClaimId>, Problem> {
    if !caller.is_scoped() {
        return Ok(HashSet::new());
    }
    let queues = app.turno.store().inbox_queues(claims).await?;
    // A claim that has ended has no queue. The store reports it as stale or, for a repeated request, its first outcome.
    let is_foreign = |found: &Option<String>| found.as_deref().is_some_and(|found| found != queue);
    let found = claims.iter().zip(&queues);
    Ok(found
        .filter(|(_, found)| is_foreign(found))
        .map(|(claim, _)| *claim)
        .collect())
}

/// Completes items.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/complete",
    operation_id = "inbox_complete",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    request_body = CompleteClaims,
    responses(
        (status = 200, body = Settled),
    ),
)]
async fn complete(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(queue): Name,
    Json(ask): Json<CompleteClaims>,
) -> Result<axum::Json<Settled>, Problem> {
    let request = SettleRequest::new(app, &caller, queue, ask.claims, ask.request).await?;
    let (claims, options) = (&request.claims, request.options);
    let settled = request.inbox.complete_with(claims, options).await?;
    Ok(request.response([settled], |inbox| &inbox.completed))
}

/// Records failed attempts. An item without attempts left becomes failed; others are retried later.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/fail",
    operation_id = "inbox_fail",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    request_body = FailClaims,
    responses(
        (status = 200, body = Settled),
    ),
)]
async fn fail(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(queue): Name,
    Json(ask): Json<FailClaims>,
) -> Result<axum::Json<Settled>, Problem> {
    let mut request = SettleRequest::new(app, &caller, queue, ask.claims, ask.request).await?;
    for failure in &mut request.claims {
        // Not every store can hold this character, and a failure must be recorded whatever its text is.
        failure.error = failure.error.replace('\0', "\u{fffd}");
    }
    let (claims, options) = (&request.claims, request.options);
    let settled = request.inbox.fail_with(claims, options).await?;
    Ok(request.response([settled], |inbox| &inbox.failed))
}

/// Maximum number of different leases per request: each is a call of the store.
const MAX_LEASES: usize = 10;

/// Extends claims, counted from now. Never shortens one. At most ten different leases per request.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/extend",
    operation_id = "inbox_extend",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    request_body = ExtendClaims,
    responses(
        (status = 200, body = Settled),
    ),
)]
async fn extend(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(queue): Name,
    Json(ask): Json<ExtendClaims>,
) -> Result<axum::Json<Settled>, Problem> {
    let request = SettleRequest::new(app, &caller, queue, ask.claims, ask.request).await?;
    // Nearly always all leases are the same, and one call is enough.
    let mut leases: Vec<(Duration, Vec<ClaimId>)> = Vec::new();
    for (place, claim) in request.claims.iter().enumerate() {
        let lease = claim
            .lease
            .map_or(request.app.options.inbox_lease, Into::into);
        let many = leases.len();
        match leases.iter_mut().find(|(known, _)| *known == lease) {
            Some((_, claims)) => claims.push(claim.claim),
            None if many < MAX_LEASES => leases.push((lease, vec![claim.claim])),
            None => {
                let reason = format!(
                    "there are more than {MAX_LEASES} different leases: use one lease for all claims, or several requests"
                );
                return Err(Problem::invalid("lease", reason).within("claims", place));
            }
        }
    }
    let mut settled = Vec::with_capacity(leases.len());
    for (lease, claims) in leases {
        settled.push(request.inbox.extend(&claims, lease).await?);
    }
    Ok(request.response(settled, |inbox| &inbox.extended))
}

/// Gives back items that were not begun. They can be claimed immediately, and no attempt is counted.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/give-back",
    operation_id = "inbox_give_back",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    request_body = CompleteClaims,
    responses(
        (status = 200, body = Settled),
    ),
)]
async fn give_back(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(queue): Name,
    Json(ask): Json<CompleteClaims>,
) -> Result<axum::Json<Settled>, Problem> {
    let request = SettleRequest::new(app, &caller, queue, ask.claims, ask.request).await?;
    let (claims, options) = (&request.claims, request.options);
    let settled = request.inbox.give_back_with(claims, options).await?;
    Ok(request.response([settled], |inbox| &inbox.given_back))
}
