//! `/v1/outbox/events`, `/v1/outbox/requeue`, `/v1/outbox/discard`

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use turno::inbox::ItemId;
use turno::outbox::EventState;
use turno::problem::ProblemCode;
use turno_api::inbox::Requeued;
use turno_api::outbox::{Discard, Discarded, EventView, Events, RequeueEvents};
use turno_api::page::next;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::app::App;
use crate::auth::caller::{Admin, Reader};
use crate::http::extract::{Json, MaybeJson, Name, Query, limit, non_empty};
use crate::http::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(find))
        .routes(routes!(requeue))
        .routes(routes!(discard))
}

/// The states that can be listed.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ListedState {
    /// Due, and not published yet.
    #[default]
    Pending,
    /// Not due yet.
    Scheduled,
    /// Claimed by a relay.
    Processing,
    /// Published.
    Dispatched,
    /// Refused by the sink too often.
    Dead,
    /// Dead, and blocking the events of the same ordering key.
    Blocked,
}

impl From<ListedState> for EventState {
    fn from(state: ListedState) -> Self {
        match state {
            ListedState::Pending => EventState::Pending,
            ListedState::Scheduled => EventState::Scheduled,
            ListedState::Processing => EventState::Processing,
            ListedState::Dispatched => EventState::Dispatched,
            ListedState::Dead => EventState::Dead,
            ListedState::Blocked => EventState::Blocked,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only events in this state. Default: pending.
    #[param(inline)]
    state: Option<ListedState>,
    /// Maximum number of entries. Default: 100. Dispatched events are listed in whole batches.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only events after this one: `next` of the previous page.
    after: Option<i64>,
}

/// Events in one state, in the order of emission; dispatched events are ordered newest first.
#[utoipa::path(
    get,
    path = "/v1/outbox/events",
    operation_id = "outbox_list",
    tag = "outbox",
    params(Page),
    responses(
        (status = 200, body = Events),
    ),
)]
async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Query(page): Query<Page>,
) -> Result<axum::Json<Events>, Problem> {
    caller.unscoped()?;
    let limit = limit(page.limit)?;
    let state = page.state.unwrap_or_default().into();
    let after = page.after.map(ItemId);
    let events = app.turno.outbox().list(state, after, limit).await?;
    Ok(axum::Json(Events {
        next: next(&events, limit, |event| event.seq),
        events,
    }))
}

/// One event, in any state.
#[utoipa::path(
    get,
    path = "/v1/outbox/events/{id}",
    operation_id = "outbox_find",
    tag = "outbox",
    params(("id" = Uuid, Path, description = "Id of the event, as returned by emit")),
    responses(
        (status = 200, body = EventView),
        (status = 404, description = "`not_found`: the event does not exist, or was deleted"),
    ),
)]
async fn find(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(id): Name,
) -> Result<axum::Json<EventView>, Problem> {
    caller.unscoped()?;
    let id = Uuid::try_parse(&id)
        .map_err(|_| Problem::invalid("id", "id is not a UUID: use the id that emit returned"))?;
    match app.turno.outbox().find(id).await? {
        Some(event) => Ok(axum::Json(event)),
        None => Err(Problem::new(ProblemCode::NotFound)
            .because("the event does not exist, or was deleted: check its id")),
    }
}

/// Requeues dead and blocked events with all their attempts. Events that are parked behind them are requeued too.
#[utoipa::path(
    post,
    path = "/v1/outbox/requeue",
    operation_id = "outbox_requeue",
    tag = "outbox",
    request_body(content = Option<RequeueEvents>),
    responses(
        (status = 200, body = Requeued),
    ),
)]
async fn requeue(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    MaybeJson(ask): MaybeJson<RequeueEvents>,
) -> Result<axum::Json<Requeued>, Problem> {
    caller.unscoped()?;
    let mut outbox = app.turno.outbox().user(caller.user(ask.user));
    if let Some(reason) = ask.reason {
        outbox = outbox.reason(reason);
    }
    let requeued = outbox.requeue(ask.ids.as_deref()).await?;
    app.metrics.outbox.requeued.inc_by(requeued);
    Ok(axum::Json(Requeued { requeued }))
}

/// Discards dead and blocked events.
#[utoipa::path(
    post,
    path = "/v1/outbox/discard",
    operation_id = "outbox_discard",
    tag = "outbox",
    responses(
        (status = 200, body = Discarded),
    ),
)]
async fn discard(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Json(ask): Json<Discard>,
) -> Result<axum::Json<Discarded>, Problem> {
    caller.unscoped()?;
    non_empty("ids", &ask.ids)?;
    let mut outbox = app.turno.outbox();
    if let Some(reason) = ask.reason {
        outbox = outbox.reason(reason);
    }
    let user = caller.user(ask.user);
    let discarded = outbox.discard(&ask.ids, &user).await?;
    app.metrics.outbox.discarded.inc_by(discarded);
    Ok(axum::Json(Discarded { discarded }))
}
