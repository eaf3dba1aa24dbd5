//! Connections to PostgreSQL: the effect of each parameter on real servers, with and without TLS.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod certificates;
mod fixture;
mod hosts;
mod modes;
mod over_tls;
mod passwords;
mod pools;
mod sessions;
