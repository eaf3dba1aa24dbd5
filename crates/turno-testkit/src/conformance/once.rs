//! Rules of the once keys.

mod begin;
mod concurrency;
pub(super) mod counted;
mod encryption;
pub(super) mod fixtures;
mod idempotency;
mod no_write_on_loss;
mod quota;
mod renew;
mod resolve;
mod stale;
mod sweep;
mod transaction;
mod unknown;
mod validation;
mod views;
mod wait;
