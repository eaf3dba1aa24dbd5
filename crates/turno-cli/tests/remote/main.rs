//! The `turno` command through a server: the same words, the same answers, the same exit codes as on a store.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod choice;
mod pair;
mod running;
mod same;
mod shown;
