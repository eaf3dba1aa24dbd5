//! Idle programs send no statements, according to the database's own log; and new work wakes them
//! immediately.
//!
//! By default they may be silent for a quarter of an hour, much longer than any of these tests waits: what
//! they find was notified.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[path = "../common/mod.rs"]
mod common;

mod actors;
mod checked;
mod log;
mod missed;
mod polled;
mod pooled;
mod silent;
mod unnotified;
mod waiters;
