//! The server, over real connections.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod bad_input;
mod common;
mod disconnect;
mod inbox;
mod leases;
mod locks;
mod once;
mod outbox;
mod people;
