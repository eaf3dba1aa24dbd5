//! Connections to PostgreSQL: what each parameter does on real servers, with TLS and without.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod certificates;
mod hosts;
mod modes;
mod over_tls;
mod passwords;
mod place;
mod pools;
mod sessions;
