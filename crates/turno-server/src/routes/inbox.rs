//! `/v1/inbox`: push, claim and statistics

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use turno::CallOptions;
use turno::inbox::{Inbox, Item, QueueStats};
use turno_api::inbox::{Claim, Claimed, Push, PushItem, Pushed, Queues};
use turno_api::openapi_types;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::{Operator, Reader};
use crate::http::extract::{Json, Name, Query, non_empty};
use crate::http::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(queues))
        .routes(routes!(push, stats))
        .routes(routes!(claim))
}

/// Stores items, all or none.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}",
    operation_id = "inbox_push",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue. Names that begin with $ are reserved")),
    responses(
        (status = 201, body = Pushed, description = "Stored now, or by an earlier request"),
    ),
)]
async fn push(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(queue): Name,
    Json(ask): Json<Push>,
) -> Result<Response, Problem> {
    caller.scope("queue", &queue)?;
    non_empty("items", &ask.items)?;
    let inbox = app.turno.inbox(queue);
    let options = CallOptions::default().request(ask.request);
    let items = ask.items.into_iter().enumerate().map(|(place, item)| {
        new_item(&inbox, item).map_err(|problem| problem.within("items", place))
    });
    let items: Vec<Item> = items.collect::<Result<_, _>>()?;
    let pushed = inbox.push_with(items, options).await?;
    app.metrics.inbox.pushed(&pushed);
    Ok((StatusCode::CREATED, axum::Json(Pushed::of(&pushed))).into_response())
}

fn new_item(inbox: &Inbox, item: PushItem) -> Result<Item, Problem> {
    let mut new = Item::from_json(item.payload);
    new = match (item.delay, item.run_at) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid(
                "run_at",
                "delay and run_at are both set: leave one of them out",
            ));
        }
        (Some(delay), None) => new.delay(delay.0),
        (None, Some(time)) => new.at(time),
        (None, None) => new,
    };
    if let Some(key) = item.key {
        new = new.unique_key(key);
    }
    if let Some(priority) = item.priority {
        new = new.priority(priority);
    }
    if let Some(group) = item.group {
        new = new.group(group);
    }
    if let Some(attempts) = item.max_attempts {
        new = new.max_attempts(attempts);
    }
    inbox.check(&new)?;
    Ok(new)
}

/// Claims items by priority, then by age. With `wait`, waits for the first one.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/claim",
    operation_id = "inbox_claim",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    responses(
        (status = 200, body = Claimed, description = "The claimed items; an empty list if none is due"),
    ),
)]
async fn claim(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    Name(queue): Name,
    Json(ask): Json<Claim>,
) -> Result<axum::Json<Claimed>, Problem> {
    caller.scope("queue", &queue)?;
    let mut claim = app
        .turno
        .inbox(queue)
        .claim()
        .worker(ask.worker)
        .lease(ask.lease.map_or(app.options.inbox_lease, Into::into));
    if let Some(request) = ask.request {
        claim = claim.request(request);
    }
    if let Some(limit) = ask.limit {
        claim = claim.limit(limit);
    }
    if let Some(wait) = ask.wait {
        claim = claim.wait(app.wait(wait.0));
    }
    // If the client disconnects meanwhile, nothing is lost: the library gives back the items that were not delivered.
    let items = app.until_shutdown(claim.take()).await?;
    app.metrics.inbox.claimed.inc_by(items.len() as u64);
    Ok(axum::Json(Claimed { items }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct QueuesQuery {
    /// Only queues whose names begin with this.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    prefix: String,
}

/// Number of items per state, for each queue, ordered by name.
#[utoipa::path(
    get,
    path = "/v1/inbox",
    operation_id = "inbox_queues",
    tag = "inbox",
    params(QueuesQuery),
    responses(
        (status = 200, body = Queues),
    ),
)]
async fn queues(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Query(query): Query<QueuesQuery>,
) -> Result<axum::Json<Queues>, Problem> {
    let prefix = caller.narrow(&query.prefix)?;
    let queues = app.turno.inbox_stats(&prefix).await?;
    Ok(axum::Json(Queues { queues }))
}

/// Number of items of a queue per state.
#[utoipa::path(
    get,
    path = "/v1/inbox/{queue}",
    operation_id = "inbox_stats",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    responses(
        (status = 200, body = QueueStats),
        (status = 404, description = "`no_queue`: nothing was ever pushed to it"),
    ),
)]
async fn stats(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(queue): Name,
) -> Result<axum::Json<QueueStats>, Problem> {
    caller.scope("queue", &queue)?;
    Ok(axum::Json(app.turno.inbox(queue).stats().await?))
}
