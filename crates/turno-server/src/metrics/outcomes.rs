//! Counts outcomes by the status of a response or the code of its problem, in one place. Numbers of items and events are counted
//! by the routes, which alone know them.

use axum::response::Response;
use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use turno::problem::ProblemCode;

use super::counters::{Locks, Once};
use super::http::InFlight;
use crate::http::problem::Problem;

/// Returns the counter of an outcome, if the request concerns one object and its status or code says what happened.
pub(crate) fn counter<'a>(
    locks: &'a Locks,
    once: &'a Once,
    request: &InFlight,
    response: &Response,
) -> Option<&'a Counter> {
    let code = response.extensions().get().map(Problem::code);
    let created = response.status() == StatusCode::CREATED;
    Some(match (request.method, &*request.route, code) {
        ("POST", "/v1/locks", None) if created => &locks.acquired,
        ("POST", "/v1/locks", None) => &locks.reentered,
        ("POST", "/v1/locks" | "/v1/lock-sets", Some(ProblemCode::Busy)) => &locks.busy,
        ("PUT", "/v1/leases/{id}", None) => &locks.renewed,
        ("DELETE", "/v1/leases/{id}", None) => &locks.released,
        ("PUT" | "DELETE", "/v1/leases/{id}", Some(ProblemCode::Lost)) => &locks.lost,
        ("DELETE", "/v1/locks/{resource}", None) => &locks.broken,
        ("POST", "/v1/once", None) if created => &once.fresh,
        ("POST", "/v1/once", None) => &once.replay,
        ("POST", "/v1/once", Some(ProblemCode::InFlight)) => &once.in_flight,
        ("POST", "/v1/once", Some(ProblemCode::Mismatch)) => &once.mismatch,
        ("POST", "/v1/once", Some(ProblemCode::Unknown)) => &once.unknown,
        ("POST", "/v1/once", Some(ProblemCode::OverQuota)) => &once.over_quota,
        ("PUT", "/v1/once/{claim}", None) => &once.completed,
        ("DELETE", "/v1/once/{claim}", None) => &once.released,
        (_, "/v1/once/{claim}", Some(ProblemCode::Stale)) => &once.stale,
        _ => return None,
    })
}
