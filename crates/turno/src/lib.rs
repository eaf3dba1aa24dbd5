//! Turno makes things happen *once, one at a time, and never get lost*, when many instances of an
//! application share one database.
//!
//! **Locks with fencing tokens**, an **inbox** of work, a transactional **outbox** and requests that are answered
//! **once**, on the database you already have: an SQLite file, or PostgreSQL.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use turno::Turno;
//!
//! let turno = Turno::connect("sqlite::memory:").await?; // or "sqlite:app.db", or "postgres://…"
//! let receipt = turno
//!     .lock("PRESTAMO/123")
//!     .ttl(Duration::from_secs(300))
//!     .user("1")
//!     .description("Registro de pago")
//!     .run(async |lease| {
//!         // The lease is renewed in the background. If it is lost, the work is stopped in time.
//!         Ok::<_, std::convert::Infallible>(format!("paid under token {}", lease.token()))
//!     })
//!     .await?;
//! assert!(receipt.starts_with("paid"));
//! # Ok(()) }
//! ```
//!
//! # What a lock is, and is not
//!
//! A lock is a *lease* plus a *fencing token*: it is yours until a time, and a number that only grows
//! says whose turn it is. Nothing can stop a process that was paused for longer than its lease from
//! waking up and writing. So exclusion is guaranteed for writes that present the token:
//! [`Lease::guard`](lock::Lease::guard) does that in one call, inside your own transaction.
//!
//! - [`lock`]: one at a time.
//! - [`inbox`]: work that is never lost, and done by one worker at a time.
//! - [`outbox`]: events that are published if and only if their transaction commits.
//! - [`sink`]: where they go.
//! - [`once`]: a request is answered once, however often it is repeated.
//! - [`adopt`]: an inbox on a table that you already have.
//! - [`schedule`]: periodic work.
//! - [`overview`]: the state of a store, for dashboards and metrics.
//! - [`access`]: who may ask a server.
//! - [`store`]: the seam, for those who write a store.
//! - [`tx`]: the transactions of yours that Turno can work in.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod access;
pub mod adopt;
#[cfg(feature = "rabbitmq")]
mod amqp;
mod backoff;
pub mod clock;
#[cfg(feature = "rabbitmq")]
pub mod consume;
mod handler_error;
pub mod history;
pub mod inbox;
pub mod lock;
pub mod once;
pub mod outbox;
pub mod overview;
mod pool;
#[cfg(feature = "http")]
pub mod problem;
pub mod schedule;
mod settings;
mod shutdown;
pub mod sink;
pub mod store;
mod sweeper;
mod turno;
pub mod tx;
mod uncancelled;
mod waiting;
mod wake;

pub use handler_error::HandlerError;
pub use pool::Pool;
pub use settings::{CallOptions, Migrate, Retry, Settings};
pub use store::{Roles, Token};
pub use sweeper::Sweeper;
pub use turno::{Builder, Turno};
pub use turno_api::check::{
    MAX_ATTEMPTS, MAX_CLAIM_BYTES, MAX_DELAY, MAX_HOLDS, MAX_ITEMS, MAX_PAGE, MAX_PAYLOAD_BYTES,
    MAX_PERMITS, MAX_QUOTA, MAX_TOGETHER, MAX_TTL, MAX_WAIT, MIN_TTL, NAME_BYTES, TEXT_BYTES,
};
pub use turno_api::error::{Error, Result};
pub use turno_api::inbox::Batching;
pub(crate) use turno_api::{check, error};
pub use wake::{Wakers, Watch};
