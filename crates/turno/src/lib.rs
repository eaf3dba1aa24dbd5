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
//! A lock is a *lease* plus a *fencing token*: the right to the resource until a time, and a number that
//! grows with each grant. Nothing can stop a process that was paused for longer than its lease from
//! resuming and writing. So exclusion is guaranteed only for writes that check the token:
//! [`Lease::guard`](lock::Lease::guard) does that in one call, inside your own transaction.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`lock`] | locks: one holder at a time |
//! | [`inbox`] | work that is never lost, and processed by one worker at a time |
//! | [`outbox`] | events that are published if and only if their transaction commits |
//! | [`sink`] | the destinations of events: RabbitMQ, NATS, webhooks |
//! | [`once`] | a request is processed once, and each repetition gets the stored answer |
//! | [`adopt`] | an inbox on a table that you already have |
//! | [`schedule`] | periodic work |
//! | [`history`] | how leases ended, and the actions of operators |
//! | [`overview`] | the state of a store, for dashboards and metrics |
//! | [`access`] | the access tokens of a server |
//! | [`tx`] | the drivers whose transactions Turno can take part in |
//! | [`store`] | the trait that a store implements |

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
