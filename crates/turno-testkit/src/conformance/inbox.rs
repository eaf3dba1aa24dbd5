//! Rules of the inbox and its schedules.

mod abandoned;
mod batch;
mod claim;
mod concurrency;
mod discard;
mod effects;
mod fail;
pub(super) mod fixtures;
mod groups;
mod idempotency;
mod late_commit;
mod list;
mod order;
mod push;
mod requeue;
mod schedule;
mod settings;
mod settle;
mod shutdown;
pub(super) mod start;
mod stats;
mod sweep;
mod transaction;
mod unique_keys;
mod validation;
mod worker;
