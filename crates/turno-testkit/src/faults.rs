//! Support for tests of real processes under faults.
//!
//! - [`StoreFixture`]: an empty store for one test, in a database that can have tables of an application;
//! - [`on_each_store`](crate::on_each_store): one test per store from one body;
//! - [`LossyPath`]: a connection to PostgreSQL that loses responses.

mod fixture;
mod lossy;

pub use fixture::{FromStore, StoreFixture, runtime, sqlite};
pub use lossy::LossyPath;

pub use crate::sql::{client, connect};

/// Runs a test on an empty PostgreSQL store.
pub fn on_postgres<F: FromStore>(test: impl FnOnce(&F)) {
    test(&F::postgres());
}

/// Runs a test on an empty SQLite store.
pub fn on_sqlite<F: FromStore>(test: impl FnOnce(&F)) {
    test(&F::sqlite());
}

/// Defines one test per store from one body, which gets a fixture with an empty store.
#[macro_export]
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* $name:ident => $body:expr;)*) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;

                #[test]
                fn postgres() {
                    $crate::faults::on_postgres($body);
                }

                #[test]
                fn sqlite() {
                    $crate::faults::on_sqlite($body);
                }
            }
        )*
    };
}
