//! `/v1/outbox/events`, `/v1/outbox/requeue`, `/v1/outbox/discard`

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use turno::inbox::ItemId;
use turno::outbox::EventState;
use turno_api::inbox::Requeued;
use turno_api::outbox::{Discard, Discarded, Event, Events, RequeueEvents};
use turno_api::page::next;
use turno_api::problem::Problem as Told;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::serve::App;
use crate::serve::ask::{Json, MaybeJson, Name, Query, limit, some};
use crate::serve::caller::{Admin, Reader};
use crate::serve::problem::Problem;
use crate::serve::words::Code;

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
    /// Waiting for a relay.
    #[default]
    Pending,
    /// Waiting for their time.
    Scheduled,
    /// In relays' hands.
    Processing,
    /// Published.
    Dispatched,
    /// Set aside.
    Dead,
    /// Dead, and keeping their keys waiting.
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
    /// Only events in this state; pending, if not said.
    #[param(inline)]
    state: Option<ListedState>,
    /// At most so many; 100, if not said. Dispatched ones come in whole batches.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only events after this one: `next` of the page before.
    after: Option<i64>,
}

/// The events in one state, in the order of their emission; dispatched ones newest first.
#[utoipa::path(
    get,
    path = "/v1/outbox/events",
    operation_id = "outbox_list",
    tag = "outbox",
    params(Page),
    responses(
        (status = 200, body = Events),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
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
        events: events.iter().map(Event::of).collect::<Result<_, _>>()?,
    }))
}

/// One event, wherever it is.
#[utoipa::path(
    get,
    path = "/v1/outbox/events/{id}",
    operation_id = "outbox_find",
    tag = "outbox",
    params(("id" = Uuid, Path, description = "Its id, as emit answered it")),
    responses(
        (status = 200, body = Event),
        (status = 404, body = Told, content_type = "application/problem+json", description = "`not_found`: the outbox does not know it, or not any more"),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn find(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Name(id): Name,
) -> Result<axum::Json<Event>, Problem> {
    caller.unscoped()?;
    let id = Uuid::try_parse(&id).map_err(|_| {
        Problem::invalid(
            "id",
            "id is no UUID: give that of an event, as emit answered it",
        )
    })?;
    match app.turno.outbox().find(id).await? {
        Some(event) => Ok(axum::Json(Event::of(&event)?)),
        None => Err(Problem::new(Code::NotFound)
            .because("the outbox does not know this event, or not any more: look at its id")),
    }
}

/// Revives dead and blocked events, with all their attempts before them; what was parked behind one comes with it.
#[utoipa::path(
    post,
    path = "/v1/outbox/requeue",
    operation_id = "outbox_requeue",
    tag = "outbox",
    request_body(content = Option<RequeueEvents>),
    responses(
        (status = 200, body = Requeued),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
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

/// Gives dead and blocked events up for good.
#[utoipa::path(
    post,
    path = "/v1/outbox/discard",
    operation_id = "outbox_discard",
    tag = "outbox",
    responses(
        (status = 200, body = Discarded),
        (status = "4XX", body = Told, content_type = "application/problem+json"),
        (status = 503, body = Told, content_type = "application/problem+json"),
    ),
)]
async fn discard(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    Json(ask): Json<Discard>,
) -> Result<axum::Json<Discarded>, Problem> {
    caller.unscoped()?;
    some("ids", &ask.ids)?;
    let mut outbox = app.turno.outbox();
    if let Some(reason) = ask.reason {
        outbox = outbox.reason(reason);
    }
    let user = caller.user(ask.user);
    let discarded = outbox.discard(&ask.ids, &user).await?;
    app.metrics.outbox.discarded.inc_by(discarded);
    Ok(axum::Json(Discarded { discarded }))
}
