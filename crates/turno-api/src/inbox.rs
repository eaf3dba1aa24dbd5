//! The inbox: items and claims.
//!
//! An item is *pending* until a worker claims it, *scheduled* before its due time and *processing* while its claim is valid. It
//! ends as *completed* or *failed*. A change to a claimed item must present its [`ClaimId`](crate::ids::ClaimId). If the claim has
//! ended, the call reports it as stale and changes nothing.

mod admin;
mod claim;
mod item;
mod settings;
mod settle;

use std::time::Duration;

pub use self::admin::*;
pub use self::claim::*;
pub use self::item::*;
pub use self::settings::*;
pub use self::settle::*;

/// How long a push wakes an idle worker after the worker's last registration.
pub const IDLE_ALIVE: Duration = Duration::from_secs(10);

/// Number of priorities: 0 is claimed first, 3 last.
pub const PRIORITIES: u8 = 4;

/// The default priority of an item.
pub const DEFAULT_PRIORITY: u8 = 1;

/// The default number of attempts of an item.
pub const DEFAULT_ATTEMPTS: u16 = 5;

/// No limit of attempts: only for the events of the outbox, about which relays decide.
pub const UNLIMITED_ATTEMPTS: u16 = 0;

/// Attempts whose outcome is unknown are counted up to this number. In SQL: `turno.inbox_doubt`.
pub const MAX_DOUBTS: u32 = 1_000_000;

/// Number of errors that an item keeps.
pub const ERRORS_KEPT: usize = 10;
