//! Calls of several callers in one statement.

mod batcher;
mod completions;
mod inbox;
mod locks;
pub(super) mod push;

pub(super) use self::batcher::{Batchable, Batcher, CallAlone, Reply, column, replies};
pub(super) use self::completions::multirange;
pub(super) use self::inbox::{Claims, Completions, Turns, is_small_claim};
pub(super) use self::locks::{Acquires, Registrations, Releases, Renewals};
pub(super) use self::push::Pushes;
