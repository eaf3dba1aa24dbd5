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
mod operations;
mod place;
mod problem;
mod program;
mod turno_inbox;

/// Generates one test per store from one body, which gets an empty store.
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* $name:ident;)*) => {
        $(
            $(#[$attribute])*
            mod $name {
                #[tokio::test]
                async fn postgres() {
                    super::$name($crate::place::Place::postgres().await).await;
                }

                #[tokio::test]
                async fn sqlite() {
                    super::$name($crate::place::Place::sqlite().await).await;
                }
            }
        )*
    };
}
pub(crate) use on_each_store;
