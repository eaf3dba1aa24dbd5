//! Turno for programs in any language, over HTTP.
//!
//! - [`serve`]: the HTTP API: locks, inbox, outbox, once.
//! - [`gate`]: a reverse proxy that lets each request of a service be answered once, without touching the service.
#![forbid(unsafe_code)]

mod accept;
pub mod gate;
mod problem;
pub mod serve;
