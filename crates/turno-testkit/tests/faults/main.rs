//! Locks under faults: real processes stopped and killed, servers crashed, responses lost, clocks shifted.
//!
//! Each scenario has a *control*: the same without its guard, which must show the failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod actor;
mod answers;
mod crash;
mod fixture;
mod handover;
mod ledger;
mod network;
mod pooler;
mod race;
mod takeover;
mod zombie;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow and busy machine.
const LONG: Duration = Duration::from_secs(60);

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
