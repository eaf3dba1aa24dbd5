//! The dashboard, in a real browser.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

mod accessible;
mod browser;
#[allow(dead_code, reason = "each test program uses its part")]
#[path = "../serve/common.rs"]
mod common;
mod deeds;
mod files;
mod foreign;
mod hostile;
mod keys;
mod live;
mod made;
mod tokens;
