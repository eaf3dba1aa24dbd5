//! `/v1/inbox/{queue}/items`, and operator actions on items that failed or hang

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde::Deserialize;
use turno::inbox::{Inbox, ItemId, ItemState, QueueSettings};
use turno_api::inbox::{Configure, FailedItems, Items, Requeued, Reset, ResetResponse};
use turno_api::openapi_types;
use turno_api::outbox::Discarded;
use turno_api::page::next;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::{Admin, Caller, Reader};
use crate::http::extract::{Json, MaybeJson, Name, Query, at_most, limit};
use crate::http::problem::Problem;

/// Default of `older_than` for a reset: how long a worker may have had an item.
const HANGS: Duration = Duration::from_secs(15 * 60);

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(requeue))
        .routes(routes!(discard))
        .routes(routes!(reset))
        .routes(routes!(settings, configure))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only items in this state. Default: pending.
    #[param(inline)]
    state: Option<ItemState>,
    /// Maximum number of entries. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only items after this one: `next` of the previous page.
    after: Option<i64>,
}

/// Items of a queue in one state, ordered by id; completed items are ordered newest first.
#[utoipa::path(
    get,
    path = "/v1/inbox/{queue}/items",
    operation_id = "inbox_list",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue"), Page),
    responses(
        (status = 200, body = Items),
        (status = 404, description = "`no_queue`: nothing was ever pushed to it"),
    ),
)]
async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(queue): Name,
    Query(page): Query<Page>,
) -> Result<axum::Json<Items>, Problem> {
    caller.scope("queue", &queue)?;
    let limit = limit(page.limit)?;
    let state = page.state.unwrap_or(ItemState::Pending);
    let inbox = app.turno.inbox(queue);
    let items = inbox.list(state, page.after.map(ItemId), limit).await?;
    Ok(axum::Json(Items {
        next: next(&items, limit, |item| item.id),
        items,
    }))
}

/// Requeues failed items with all their attempts.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/requeue",
    operation_id = "inbox_requeue",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    request_body(content = Option<FailedItems>),
    responses(
        (status = 200, body = Requeued, description = "Ids that belong to no failed item of the queue are ignored"),
    ),
)]
async fn requeue(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(queue): Name,
    MaybeJson(ask): MaybeJson<FailedItems>,
) -> Result<axum::Json<Requeued>, Problem> {
    let (inbox, ids) = failed_items(&app, &caller, queue, ask)?;
    let requeued = inbox.requeue(ids.as_deref()).await?;
    app.metrics.inbox.requeued.inc_by(requeued);
    Ok(axum::Json(Requeued { requeued }))
}

/// Deletes failed items and their errors. Their unique keys are kept like those of completed items.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/discard",
    operation_id = "inbox_discard",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    responses(
        (status = 200, body = Discarded, description = "Ids that belong to no failed item of the queue are ignored"),
    ),
)]
async fn discard(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(queue): Name,
    // The body is required: a discard of all failed items cannot be undone.
    Json(ask): Json<FailedItems>,
) -> Result<axum::Json<Discarded>, Problem> {
    let (inbox, ids) = failed_items(&app, &caller, queue, ask)?;
    let discarded = inbox.discard(ids.as_deref()).await?;
    app.metrics.inbox.discarded.inc_by(discarded);
    Ok(axum::Json(Discarded { discarded }))
}

/// Returns the queue with the user and reason of the action, and the ids of the failed items.
fn failed_items(
    app: &App,
    caller: &Caller,
    queue: String,
    ask: FailedItems,
) -> Result<(Inbox, Option<Vec<ItemId>>), Problem> {
    caller.scope("queue", &queue)?;
    at_most("ids", ask.ids.as_deref().unwrap_or_default())?;
    let mut inbox = app.turno.inbox(queue).user(caller.user(ask.user));
    if let Some(reason) = ask.reason {
        inbox = inbox.reason(reason);
    }
    Ok((inbox, ask.ids))
}

/// Takes items away from workers that hang. Their claims become stale.
#[utoipa::path(
    post,
    path = "/v1/inbox/{queue}/reset",
    operation_id = "inbox_reset",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    request_body(content = Option<Reset>),
    responses(
        (status = 200, body = ResetResponse),
    ),
)]
async fn reset(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(queue): Name,
    MaybeJson(ask): MaybeJson<Reset>,
) -> Result<axum::Json<ResetResponse>, Problem> {
    caller.scope("queue", &queue)?;
    let older_than = ask.older_than.map_or(HANGS, Into::into);
    let mut inbox = app.turno.inbox(queue).user(caller.user(ask.user));
    if let Some(reason) = ask.reason {
        inbox = inbox.reason(reason);
    }
    let reset = inbox.reset(older_than).await?;
    app.metrics.inbox.reset.inc_by(reset);
    Ok(axum::Json(ResetResponse { reset }))
}

/// Settings of a queue. One that is absent limits nothing.
#[utoipa::path(
    get,
    path = "/v1/inbox/{queue}/settings",
    operation_id = "inbox_settings",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue")),
    responses(
        (status = 200, body = QueueSettings),
    ),
)]
async fn settings(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(queue): Name,
) -> Result<axum::Json<QueueSettings>, Problem> {
    caller.scope("queue", &queue)?;
    Ok(axum::Json(app.turno.inbox(queue).settings().await?))
}

/// Changes settings of a queue, for all its workers. Items in flight are not concerned.
#[utoipa::path(
    patch,
    path = "/v1/inbox/{queue}/settings",
    operation_id = "inbox_configure",
    tag = "inbox",
    params(("queue" = openapi_types::Name, Path, description = "Name of the queue. Names that begin with $ are reserved")),
    responses(
        (status = 200, body = QueueSettings, description = "All settings after the change"),
    ),
)]
async fn configure(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Name(queue): Name,
    Json(mut ask): Json<Configure>,
) -> Result<axum::Json<QueueSettings>, Problem> {
    caller.scope("queue", &queue)?;
    let mut inbox = app.turno.inbox(queue).user(caller.user(ask.user.take()));
    if let Some(reason) = ask.reason.take() {
        inbox = inbox.reason(reason);
    }
    Ok(axum::Json(inbox.configure(ask.into()).await?))
}
