//! The outbox under faults: real relays killed, a real RabbitMQ and PostgreSQL restarted, poisoned and unroutable events.
//!
//! Each scenario has a *control*: the same without its guard, which must show the failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod consumer;
mod delivered;
mod fixture;
mod outage;
mod relay;
mod single;
mod unroutable;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow and busy machine.
const LONG: Duration = Duration::from_secs(240);

/// Defines one test per store from one body, which gets an empty store.
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* $name:ident => $body:expr;)*) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;

                #[test]
                fn postgres() {
                    ($body)(&$crate::fixture::Fixture::postgres());
                }

                #[test]
                fn sqlite() {
                    ($body)(&$crate::fixture::Fixture::sqlite());
                }
            }
        )*
    };
}
pub(crate) use on_each_store;
