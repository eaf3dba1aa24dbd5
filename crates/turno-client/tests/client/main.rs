//! The client against a real server.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod calls;
mod common;
mod faults;
mod library;
mod tls;
mod tokens;
