//! Rules of the locks.

mod acquire;
mod concurrency;
mod expiry;
pub(super) mod fixtures;
mod force_break;
mod guard;
mod hold_limits;
mod idempotency;
mod lock_set;
mod no_write_on_loss;
mod readers;
mod request_id;
mod run;
mod shared;
mod stale;
mod sweep;
mod tokens;
mod validation;
mod views;
mod wait;
mod wait_calls;
