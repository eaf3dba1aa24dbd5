//! `turno top` at a real terminal: what it shows is what the other verbs tell, and what it does is in the history.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod acts;
mod ends;
mod scene;
mod tmux;
