//! The server, over real connections.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod asker;
mod bad_input;
mod common;
mod disconnect;
mod inbox;
mod leaks;
mod leases;
mod locks;
mod matrix;
mod once;
mod openapi;
mod outbox;
mod people;
mod scope;
