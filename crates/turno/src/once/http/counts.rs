//! Counters of the layer.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since the layer was created. A policy in shadow mode counts what it would have done.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
        }

        impl Counters {
            pub(super) fn now(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl std::ops::AddAssign for Counts {
            fn add_assign(&mut self, more: Self) {
                $(self.$name += more.$name;)*
            }
        }
    };
}

counts! {
    /// Requests whose work was done here.
    fresh,
    /// Requests that got a stored answer.
    replayed,
    /// Requests whose work was done, and whose answer was not stored.
    not_stored,
    /// Requests whose work was in flight.
    in_flight,
    /// Requests with the key of a request with different content.
    mismatch,
    /// Requests whose earlier run is unknown.
    unknown,
    /// Requests of callers that had reached their quota of live keys.
    over_quota,
    /// Answers that came too late: another run had taken over.
    stale,
    /// Requests that could not be identified.
    unidentified,
    /// Requests while the store was unavailable.
    store_down,
    /// Duplicates and mismatches that a policy in shadow mode let pass.
    shadowed,
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
