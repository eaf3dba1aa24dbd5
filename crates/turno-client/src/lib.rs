//! A typed client of `turno serve`, and the words that are spoken over HTTP.
//!
//! - [`wire`]: what is asked and answered, one type each; the server is built on the same.
#![forbid(unsafe_code)]

pub mod wire;
