//! The document's problem, its solution, its alternatives and Turno's inbox, with three real processes, on each store.
//!
//! Each test names the section of the document that it shows. The *control* of each protection is the plain select.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod alternatives;
mod conditional_update;
mod errors;
mod isolation;
mod log;
mod mixed_fleet;
mod operations;
mod problem;
mod program;
mod test_database;
mod turno_inbox;

/// Generates one test per store from one body, which gets an empty store.
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* $name:ident;)*) => {
        $(
            $(#[$attribute])*
            mod $name {
                #[tokio::test]
                async fn postgres() {
                    super::$name($crate::test_database::TestDatabase::postgres().await).await;
                }

                #[tokio::test]
                async fn sqlite() {
                    super::$name($crate::test_database::TestDatabase::sqlite().await).await;
                }
            }
        )*
    };
}
pub(crate) use on_each_store;
