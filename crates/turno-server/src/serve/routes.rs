//! What can be asked: one file for each noun.

mod claims;
mod history;
mod inbox;
mod items;
mod leases;
mod locks;
mod once;
mod once_keys;
mod outbox;
mod people;
mod settle;

use std::sync::Arc;

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::App;

/// The routes, and their description.
pub(super) fn all() -> (Router<Arc<App>>, OpenApi) {
    OpenApiRouter::new()
        .merge(locks::routes())
        .merge(leases::routes())
        .merge(history::routes())
        .merge(inbox::routes())
        .merge(items::routes())
        .merge(settle::routes())
        .merge(outbox::routes())
        .merge(once::routes())
        .merge(once_keys::routes())
        .merge(people::routes())
        .split_for_parts()
}
