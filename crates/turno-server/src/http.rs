//! HTTP without Turno's verbs: connections, limits, extractors, problems and the description of the API.

pub(crate) mod connection_limit;
pub(crate) mod extract;
pub(crate) mod io_timeout;
pub(crate) mod listener;
pub(crate) mod middleware;
pub(crate) mod openapi;
pub(crate) mod problem;
pub(crate) mod rate_limit;
pub(crate) mod tls;
pub(crate) mod tracing;
