//! Routes of the API: one file per noun.

mod admin;
mod dashboard;
mod events;
mod health;
mod history;
mod inbox;
mod items;
mod leases;
mod locks;
mod metrics;
mod once;
mod once_keys;
mod outbox;
mod settle;
mod stream;
mod whoami;

use std::sync::Arc;

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::http::openapi::describe;

/// Returns the OpenAPI description of the whole API, as a server that requires access tokens serves it.
pub fn openapi() -> OpenApi {
    describe(all().1)
}

/// Returns all routes and their OpenAPI description.
pub(crate) fn all() -> (Router<Arc<App>>, OpenApi) {
    OpenApiRouter::new()
        .merge(locks::routes())
        .merge(leases::routes())
        .merge(history::routes())
        .merge(inbox::routes())
        .merge(items::routes())
        .merge(settle::routes())
        .merge(outbox::routes())
        .merge(events::routes())
        .merge(once::routes())
        .merge(once_keys::routes())
        .merge(admin::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(stream::routes())
        .merge(whoami::routes())
        .merge(dashboard::routes())
        .split_for_parts()
}
