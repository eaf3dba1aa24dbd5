//! What an answer's status or its problem's code says was done: counted on its way out, in one place. How many items or
//! events it was, only the routes themselves know, and count.

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::{Method, StatusCode};
use prometheus_client::metrics::counter::Counter;

use super::Metrics;
use crate::serve::problem::Problem;
use crate::serve::words::Code;

/// What was asked for.
pub(in crate::serve) struct Asked {
    method: Method,
    route: Option<MatchedPath>,
}

impl Asked {
    pub(in crate::serve) fn of(request: &Request) -> Self {
        Asked {
            method: request.method().clone(),
            route: request.extensions().get().cloned(),
        }
    }

    /// Counts what was answered.
    pub(in crate::serve) fn count(&self, metrics: &Metrics, response: &Response) {
        let said = Said {
            status: response.status(),
            code: response.extensions().get::<Problem>().map(Problem::code),
        };
        let route = self.route.as_ref().map(MatchedPath::as_str);
        if let Some(counter) = route.and_then(|route| counter(metrics, &self.method, route, said)) {
            counter.inc();
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy)]
struct Said {
    status: StatusCode,
    code: Option<Code>,
}

/// Where it is counted, if one thing was asked for and the status or the code says what came of it.
fn counter<'a>(
    metrics: &'a Metrics,
    method: &Method,
    route: &str,
    said: Said,
) -> Option<&'a Counter> {
    let Metrics { locks, once, .. } = metrics;
    let created = said.status == StatusCode::CREATED;
    Some(match (method.as_str(), route, said.code) {
        ("POST", "/v1/locks", None) if created => &locks.acquired,
        ("POST", "/v1/locks", None) => &locks.reentered,
        ("POST", "/v1/locks" | "/v1/lock-sets", Some(Code::Busy)) => &locks.busy,
        ("PUT", "/v1/leases/{*id}", None) => &locks.renewed,
        ("DELETE", "/v1/leases/{*id}", None) => &locks.released,
        ("PUT" | "DELETE", "/v1/leases/{*id}", Some(Code::Lost)) => &locks.lost,
        ("DELETE", "/v1/locks/{*resource}", None) => &locks.broken,
        ("POST", "/v1/once", None) if created => &once.fresh,
        ("POST", "/v1/once", None) => &once.replay,
        ("POST", "/v1/once", Some(Code::InFlight)) => &once.in_flight,
        ("POST", "/v1/once", Some(Code::Mismatch)) => &once.mismatch,
        ("POST", "/v1/once", Some(Code::Unknown)) => &once.unknown,
        ("POST", "/v1/once", Some(Code::OverQuota)) => &once.over_quota,
        ("PUT", "/v1/once/{*claim}", None) => &once.completed,
        ("DELETE", "/v1/once/{*claim}", None) => &once.released,
        (_, "/v1/once/{*claim}", Some(Code::Stale)) => &once.stale,
        _ => return None,
    })
}
