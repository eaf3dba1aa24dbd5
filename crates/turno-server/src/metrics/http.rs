//! Metrics of requests and connections.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::http::tracing::route;

/// Label for requests without a route. Their paths are unbounded and are not used as labels.
const NO_ROUTE: &str = "none";

/// In seconds: from a typical response with SQLite to the longest wait.
const DURATION_BUCKETS: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Arc<str>,
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    route: Arc<str>,
    method: &'static str,
    status: &'static str,
}

/// Requests by route, and open connections.
#[derive(Debug)]
pub(crate) struct Http {
    requests: Family<ResponseLabels, Counter>,
    duration: Family<RequestLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    pub(crate) connections: Gauge,
}

impl Http {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let http = Http {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
        };
        let help = "Requests, by route, method and class of status; gone if the client disconnected before the response";
        registry.register("http_requests", help, http.requests.clone());
        let help = "Time until the response began, including waits";
        registry.register_with_unit("http_request", help, Unit::Seconds, http.duration.clone());
        let help = "Requests in flight";
        registry.register("http_requests_in_flight", help, http.in_flight.clone());
        let help = "Open connections";
        registry.register("http_connections", help, http.connections.clone());
        http
    }

    /// Counts a request in flight.
    pub(crate) fn begin(self: &Arc<Self>, request: &Request) -> InFlight {
        self.in_flight.inc();
        InFlight {
            http: self.clone(),
            route: route(request).as_deref().unwrap_or(NO_ROUTE).into(),
            method: method(request.method()),
            began: Instant::now(),
            status: "gone",
        }
    }
}

/// A request in flight. Dropping it counts the request.
#[derive(Debug)]
pub(crate) struct InFlight {
    http: Arc<Http>,
    pub(crate) route: Arc<str>,
    pub(crate) method: &'static str,
    began: Instant,
    status: &'static str,
}

impl InFlight {
    /// Records the status when the response begins.
    pub(crate) fn end(mut self, status: StatusCode) {
        self.status = class(status);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let http = &self.http;
        http.in_flight.dec();
        let request = RequestLabels {
            route: self.route.clone(),
            method: self.method,
        };
        let took = self.began.elapsed().as_secs_f64();
        http.duration.get_or_create(&request).observe(took);
        let response = ResponseLabels {
            route: self.route.clone(),
            method: self.method,
            status: self.status,
        };
        http.requests.get_or_create(&response).inc();
    }
}

/// Returns the label of a method: only known ones, because a client may send any text.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
