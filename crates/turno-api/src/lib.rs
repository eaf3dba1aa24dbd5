//! The types of Turno, defined once for the library, its stores, the HTTP server, the HTTP client and the program.
//!
//! There is one module per noun. Each has the parameters, outcomes and views of the store's methods, and the request and response
//! bodies of the HTTP API.
//!
//! Requests with unknown fields are rejected: a misspelt field that is silently ignored is worse than an error. Later versions
//! may add fields to responses, and clients must ignore those that they do not know.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod access;
pub mod admin;
pub mod adopt;
mod busy;
pub mod check;
pub mod duration;
pub mod error;
pub mod history;
pub mod ids;
pub mod inbox;
pub mod json;
pub mod lock;
mod names;
mod object;
pub mod once;
#[cfg(feature = "schema")]
pub mod openapi_types;
pub mod outbox;
pub mod page;
pub mod problem;
mod request;
#[cfg(test)]
mod round_trip;
mod routing;
pub mod schedule;
pub mod schema;
pub mod stream;

pub use self::error::{Error, Result};
