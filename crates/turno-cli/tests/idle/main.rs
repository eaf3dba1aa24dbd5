//! What programs that have nothing to do ask the database, by the database's own log: nothing. And what ends that: new work,
//! at once.
//!
//! How long they may be silent is a quarter of an hour unless said otherwise, much longer than any of these tests waits: what
//! is found was notified.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[path = "../common/mod.rs"]
mod common;

mod actors;
mod checked;
mod log;
mod missed;
mod pooled;
mod silent;
mod unnotified;
mod waiters;
