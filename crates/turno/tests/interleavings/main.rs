//! Calls of two or three PostgreSQL sessions in every order, one statement at a time.
//!
//! Each rule has a control: the same sessions with a function whose guard was removed must break it in some order.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod inbox;
mod kit;
mod lock;
mod once;
mod outbox;
