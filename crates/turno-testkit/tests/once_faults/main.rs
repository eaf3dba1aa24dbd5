//! Once under faults: real web servers and gates that are crowded, killed and stopped, and databases that crash.
//!
//! Each scenario has its *control*: the same with its guard removed, which must show the failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod client;
mod crash;
mod crowd;
mod identity;
mod killed;
mod load;
mod place;
mod web;
mod zombie;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow machine with other work to do.
const LONG: Duration = Duration::from_secs(120);

/// One test a store from one body, which is given an empty store.
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* $name:ident => $body:expr;)*) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;

                #[test]
                fn postgres() {
                    ($body)(&$crate::place::Place::postgres());
                }

                #[test]
                fn sqlite() {
                    ($body)(&$crate::place::Place::sqlite());
                }
            }
        )*
    };
}
pub(crate) use on_each_store;
