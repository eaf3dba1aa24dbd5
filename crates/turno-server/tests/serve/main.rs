//! The server, over real connections.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod access;
mod any_text;
mod auth_client;
mod background;
mod bad_input;
mod common;
mod concurrency;
mod disconnect;
mod history;
mod idempotency;
mod inbox;
mod leaks;
mod leases;
mod locks;
mod maintenance;
mod matrix;
mod metrics;
mod once;
mod openapi;
mod outbox;
mod propagation;
mod raw;
mod scope;
mod settle;
mod shutdown;
mod slow;
mod store_down;
mod stream;
mod tls;
mod wakeups;
