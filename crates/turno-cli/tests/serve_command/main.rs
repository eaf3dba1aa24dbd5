//! `turno serve` and `turno token`: start, rejected configurations, output.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod docs;
mod http;
mod inside;
mod start;
mod token;
