//! How often what happened.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often what happened since the layer was made. With a policy in shadow, what would have.
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
    /// Requests that were answered with a stored answer.
    replayed,
    /// Requests whose work was done, and whose answer was not stored.
    not_stored,
    /// Requests that met their own work in flight.
    in_flight,
    /// Requests with the key of another content.
    mismatch,
    /// Requests whose earlier run had vanished.
    unknown,
    /// Requests of those who had too many live keys.
    over_quota,
    /// Answers that came too late to count.
    stale,
    /// Requests that could not be identified.
    unidentified,
    /// Requests that met a store that did not answer.
    store_down,
    /// Duplicates and mismatches that a policy in shadow let pass.
    shadowed,
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
