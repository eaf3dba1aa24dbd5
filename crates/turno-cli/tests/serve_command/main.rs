//! `turno serve` and `turno token`: how they start, what they refuse, what they print.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod docs;
mod http;
mod inside;
mod start;
mod token;
