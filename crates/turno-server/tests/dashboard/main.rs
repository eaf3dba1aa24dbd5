//! The dashboard, in a real browser.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod accessible;
mod actions;
mod browser;
#[allow(dead_code, reason = "each test program uses its part")]
#[path = "../serve/common.rs"]
mod common;
mod files;
mod fixtures;
mod foreign;
mod hostile;
mod keys;
mod live;
mod tokens;
