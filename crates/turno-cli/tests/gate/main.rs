//! `turno gate` in front of a service that is unaware of it: real processes, on both stores.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod afore;
mod http;
mod legacy;
mod routes;
mod running;
