//! The `turno` command, as its users run it: real processes, on both stores.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod adopt;
mod bad_input;
mod completions;
mod config;
mod connect;
mod faketime;
mod help;
mod history;
mod inbox;
mod inbox_push;
mod lock;
mod once;
mod operate;
mod outbox;
mod outbox_relay;
mod run;
mod unreachable;
