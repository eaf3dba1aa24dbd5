//! `/v1/outbox`: emit and statistics

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use turno::CallOptions;
use turno::outbox::{Event, OutboxStats};
use turno_api::outbox::{Emit, Emitted, NewEvent};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::{Operator, Reader};
use crate::http::extract::{Json, non_empty};
use crate::http::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(emit, stats))
}

/// Stores events, all or none. A relay publishes them.
#[utoipa::path(
    post,
    path = "/v1/outbox",
    operation_id = "outbox_emit",
    tag = "outbox",
    responses(
        (status = 201, body = Emitted, description = "Stored now, or by an earlier request"),
    ),
)]
async fn emit(
    State(app): State<Arc<App>>,
    Operator(caller): Operator,
    headers: HeaderMap,
    Json(ask): Json<Emit>,
) -> Result<Response, Problem> {
    for event in &ask.events {
        caller.scope("type", &event.kind)?;
    }
    non_empty("events", &ask.events)?;
    let outbox = app.turno.outbox();
    let options = CallOptions::default().request(ask.request);
    let trace = Trace::of(&app, &headers);
    let mut events = Vec::with_capacity(ask.events.len());
    for (place, event) in ask.events.into_iter().enumerate() {
        let event = traced(event, &trace);
        outbox
            .check(&event)
            .map_err(|error| Problem::from(error).within("events", place))?;
        events.push(event);
    }
    let ids = outbox.emit_with(events, options).await?;
    app.metrics.outbox.emitted.inc_by(ids.len() as u64);
    Ok((StatusCode::CREATED, axum::Json(Emitted { ids })).into_response())
}

/// The trace context of the request, if it has one.
#[derive(Debug, Default)]
struct Trace {
    parent: Option<String>,
    state: Option<String>,
}

impl Trace {
    /// Reads the trace headers. Invalid ones are ignored: they are no reason to reject the events.
    fn of(app: &App, headers: &HeaderMap) -> Self {
        let outbox = app.turno.outbox();
        let value = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
        let any = || Event::new("any", &());
        let parent: Option<String> =
            value("traceparent").filter(|parent| outbox.check(&any().traceparent(parent)).is_ok());
        let state = value("tracestate")
            .filter(|state| parent.is_some() && outbox.check(&any().tracestate(state)).is_ok());
        Trace { parent, state }
    }
}

/// Adds the trace of the request to an event without a trace of its own. A `tracestate` belongs to its `traceparent`: the
/// request's state is not combined with an event's own parent.
fn traced(mut event: NewEvent, trace: &Trace) -> Event {
    if event.traceparent.is_none() && event.tracestate.is_none() {
        event.traceparent.clone_from(&trace.parent);
        event.tracestate.clone_from(&trace.state);
    }
    event.into()
}

/// Number of events per state.
#[utoipa::path(
    get,
    path = "/v1/outbox",
    operation_id = "outbox_stats",
    tag = "outbox",
    responses(
        (status = 200, body = OutboxStats),
    ),
)]
async fn stats(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
) -> Result<axum::Json<OutboxStats>, Problem> {
    caller.unscoped()?;
    Ok(axum::Json(app.turno.outbox().stats().await?))
}
