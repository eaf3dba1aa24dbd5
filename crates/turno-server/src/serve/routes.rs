//! What can be asked: one file for each noun.

mod history;
mod leases;
mod locks;

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
        .split_for_parts()
}
