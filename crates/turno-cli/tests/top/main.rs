//! `turno top` on a real terminal: it shows the same as the other commands, and its actions are in the history.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod acts;
mod ends;
mod scene;
mod tmux;
