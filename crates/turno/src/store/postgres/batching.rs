//! Calls of several callers in one statement.

mod batcher;
mod completions;
mod inbox;
pub(super) mod locks;
pub(super) mod push;

pub(super) use self::batcher::{Answer, Batchable, Batcher};
pub(super) use self::completions::multirange;
pub(super) use self::inbox::{
    Claims, Completions, Turns, completion_lock, is_small_claim, is_small_completion,
};
pub(super) use self::locks::{Acquires, Releases, Renewals, SignIns};
pub(super) use self::push::Pushes;
