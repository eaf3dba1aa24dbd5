//! Servers that are killed with -9 while clients use them: real processes, on real stores.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[path = "../common/mod.rs"]
#[macro_use]
mod common;
#[path = "../serve_command/http.rs"]
mod http;

mod failover;
mod fire;
mod full_disk;
mod ledger;
mod restart;
mod two;
mod upgrade;
mod work;
