//! Turno over HTTP, for programs in any language.
//!
//! - [`serve`]: the HTTP API of locks, inbox, outbox and once.
//! - [`gate`]: a reverse proxy that applies once to a service without changes to the service.
#![forbid(unsafe_code)]

mod accept;
pub mod gate;
mod problem;
pub mod serve;
