//! The server, over real connections.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod common;
mod locks;
