//! The tower layer, as services and clients see it; in an axum router, as in an application.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod attempt;
mod callers;
mod identity;
mod in_flight;
mod kit;
mod large;
mod late;
mod refused;
mod replay;
mod routes;
mod shadow;
mod store_down;
mod templates;
mod unknown;
mod unstored;
mod vanished;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow and busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Defines one test per store from one body, which gets the URL of an empty store.
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* $name:ident => $body:path;)*) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;

                #[tokio::test]
                async fn postgres() {
                    let url = turno_testkit::PostgresServer::shared().create_database();
                    $body(&url).await;
                }

                #[tokio::test]
                async fn sqlite() {
                    let folder = tempfile::tempdir().unwrap();
                    let url = format!("sqlite:{}", folder.path().join("turno.db").display());
                    $body(&url).await;
                }
            }
        )*
    };
}
pub(crate) use on_each_store;
