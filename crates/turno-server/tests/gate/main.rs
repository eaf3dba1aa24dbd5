//! The gate in front of a service, over real connections.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod admin;
mod callers;
mod common;
mod failures;
mod headers;
mod http2;
mod lifetime;
mod modes;
mod probe;
mod service;
mod slow;
mod streaming;
mod templates;
mod upgrade;
