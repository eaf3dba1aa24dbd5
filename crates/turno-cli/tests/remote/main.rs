//! The `turno` command through a server: the same arguments, output and exit codes as on a store.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod choice;
mod pair;
mod running;
mod same;
mod shown;
