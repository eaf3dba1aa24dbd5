//! Counts outcomes by the status of a response or the code of its problem, in one place. Numbers of items and events are counted
//! by the routes, which alone know them.

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::{Method, StatusCode};
use prometheus_client::metrics::counter::Counter;

use super::Metrics;
use crate::serve::problem::Problem;
use crate::serve::words::Code;

/// Method and route of a request.
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

    /// Counts the outcome of a response.
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

/// Outcome of a request.
#[derive(Clone, Copy)]
struct Said {
    status: StatusCode,
    code: Option<Code>,
}

/// Returns the counter of an outcome, if the request concerns one object and its status or code says what happened.
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
