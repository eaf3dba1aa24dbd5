//! The server, over real connections.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod access;
mod again;
mod any_text;
mod asker;
mod background;
mod bad_input;
mod common;
mod crowd;
mod disconnect;
mod history;
mod inbox;
mod leaks;
mod leases;
mod locks;
mod matrix;
mod metrics;
mod once;
mod openapi;
mod outbox;
mod people;
mod raw;
mod scope;
mod settle;
mod shutdown;
mod slow;
mod soon;
mod store_down;
mod stream;
mod tls;
mod woken;
