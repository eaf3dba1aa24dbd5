//! `/v1/stream`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use serde::Deserialize;
use turno_api::stream::{
    HistoryNews, LocksChanged, OnceChanged, QueuesChanged, Reconnect, Snapshot, StoreState,
};
use utoipa::{IntoParams, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::Reader;
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::stream::subscriber::{self, StreamOptions};

/// One of the events.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only described")]
struct StreamEvent {
    /// Grows with each event of a stream.
    id: Option<String>,
    /// Type of `data`.
    #[schema(pattern = "^(snapshot|locks|queues|outbox|once|history|store|reconnect)$")]
    event: Option<String>,
    /// JSON of that type.
    data: String,
}

/// The data of the events. No route names these types, because OpenAPI cannot describe a stream of events.
#[derive(OpenApi)]
#[openapi(components(schemas(
    Snapshot,
    LocksChanged,
    QueuesChanged,
    OnceChanged,
    HistoryNews,
    StoreState,
    Reconnect
)))]
struct Events;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Events::openapi()).routes(routes!(listen))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StreamQuery {
    /// Only names that begin with this.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    #[serde(default)]
    prefix: String,
}

/// Live state of the store, as server-sent events.
///
/// First a `snapshot` (Snapshot), then what changes: `locks` (LocksChanged), `queues` (QueuesChanged), `outbox` (OutboxStats; only
/// without a prefix), `once` (OnceChanged), `history` (HistoryNews), `store` (StoreState). `reconnect` (Reconnect) is the last one.
/// Each has an `id`; a client that reconnects gets a new snapshot.
#[utoipa::path(
    get,
    path = "/v1/stream",
    operation_id = "stream",
    tag = "admin",
    params(StreamQuery),
    responses(
        (status = 200, body = StreamEvent, content_type = "text/event-stream", description = "Lasts until the client or the server ends it"),
        (status = 503, description = "`overloaded`: the limit of subscribers is reached"),
    ),
)]
async fn listen(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    Query(query): Query<StreamQuery>,
    head: Parts,
) -> Result<Response, Problem> {
    let prefix = caller.narrow(&query.prefix)?;
    let subscription = app.feeds.subscribe(&prefix)?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    let options = StreamOptions {
        gatekeeper: app.gatekeeper.clone(),
        closing: app.closing.clone(),
        max_wait: app.options.max_wait,
        subscribers: app.metrics.subscribers.clone(),
    };
    Ok((headers, subscriber::body(options, subscription, head)).into_response())
}
