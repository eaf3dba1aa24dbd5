//! Routes of the API: one file per noun.

mod claims;
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
mod people;
mod settle;
mod stream;
mod whoami;

use std::sync::Arc;

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::{App, dashboard};

/// Returns all routes and their OpenAPI description.
pub(super) fn all() -> (Router<Arc<App>>, OpenApi) {
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
        .merge(people::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(stream::routes())
        .merge(whoami::routes())
        .merge(dashboard::routes())
        .split_for_parts()
}
