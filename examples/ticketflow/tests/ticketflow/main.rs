//! TicketFlow as several real processes, on PostgreSQL and on SQLite, with a real RabbitMQ.
//!
//! Each scenario of the document is a test, and each promise has its control: the same with its guard removed.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "../../src/cast.rs"]
mod cast;
#[path = "../../src/db.rs"]
#[allow(dead_code, reason = "`ticketflow migrate` makes the tables")]
mod db;
#[path = "../../src/fault.rs"]
#[allow(dead_code, reason = "the processes pass its points")]
mod fault;
#[path = "../../src/settings.rs"]
#[allow(dead_code, reason = "the processes read the file")]
mod settings;
#[path = "../../src/tally.rs"]
#[allow(
    dead_code,
    reason = "the show begins with a store that may not be empty"
)]
mod tally;
#[path = "../../src/tap.rs"]
#[allow(dead_code, reason = "the show takes all at once")]
mod tap;

mod contract;
mod dead;
mod ef_table;
mod idempotency;
mod mixed_fleet;
mod queries;
mod retry;
mod show;
mod stage;
mod tls;
mod usual;
mod workers;

/// Generates one test per store from one body, which gets an empty store and a separate exchange.
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* $name:ident;)*) => {
        mod on {
            $(
                $(#[$attribute])*
                mod $name {
                    #[tokio::test(flavor = "multi_thread")]
                    async fn postgres() {
                        super::super::$name($crate::stage::Stage::postgres().await).await;
                    }

                    #[tokio::test(flavor = "multi_thread")]
                    async fn sqlite() {
                        super::super::$name($crate::stage::Stage::sqlite().await).await;
                    }
                }
            )*
        }
    };
}
pub(crate) use on_each_store;
