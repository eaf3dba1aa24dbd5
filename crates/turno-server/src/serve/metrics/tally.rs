//! What an answer says was done: counted on its way out, in one place for all routes.
//!
//! Most outcomes are told by the status or the problem's code. How many items or events it was, only the answer itself
//! says, so that those answers, which are whole already, are read.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use turno::store::Swept;

use super::Metrics;
use crate::serve::App;
use crate::serve::problem::Problem;
use crate::serve::words::Code;

/// Counts what the routes answer. It stands inside what writes problems, and sees them before they are text.
pub(in crate::serve) fn layer(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes.layer(from_fn_with_state(app.clone(), count))
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(route) = request.extensions().get::<MatchedPath>().cloned() else {
        return next.run(request).await;
    };
    let method = request.method().clone();
    let response = next.run(request).await;
    let said = Said {
        status: response.status(),
        code: response.extensions().get::<Problem>().map(Problem::code),
    };
    if single(&app.metrics, &method, route.as_str(), said) || said.code.is_some() {
        return response;
    }
    match reader(&method, route.as_str()) {
        Some(read) => read_and(read, &app.metrics, response).await,
        None => response,
    }
}

/// How a request ended.
#[derive(Clone, Copy)]
struct Said {
    status: StatusCode,
    code: Option<Code>,
}

/// One thing was asked for, and the status or the code says what came of it. Answers whether that was so.
fn single(metrics: &Metrics, method: &Method, route: &str, said: Said) -> bool {
    let Metrics { locks, once, .. } = metrics;
    let created = said.status == StatusCode::CREATED;
    let counter = match (method.as_str(), route, said.code) {
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
        _ => return false,
    };
    counter.inc();
    true
}

/// Counts what an answer says.
type Read = fn(&Metrics, &[u8]) -> serde_json::Result<()>;

/// Who reads the answers of a route, if that is needed.
fn reader(method: &Method, route: &str) -> Option<Read> {
    if method != Method::POST {
        return None;
    }
    Some(match route {
        "/v1/lock-sets" => |metrics, text| {
            let told: Leases = serde_json::from_slice(text)?;
            for lease in told.leases {
                match lease.holds {
                    1 => metrics.locks.acquired.inc(),
                    _ => metrics.locks.reentered.inc(),
                };
            }
            Ok(())
        },
        "/v1/inbox/{queue}" => |metrics, text| {
            let told: Pushed = serde_json::from_slice(text)?;
            let duplicates = told.duplicate_places.len();
            let pushed = told.ids.len().saturating_sub(duplicates);
            metrics.inbox.pushed.inc_by(pushed as u64);
            metrics.inbox.duplicate.inc_by(duplicates as u64);
            Ok(())
        },
        "/v1/inbox/{queue}/claim" => |metrics, text| {
            let told: Claimed = serde_json::from_slice(text)?;
            metrics.inbox.claimed.inc_by(told.items.len() as u64);
            Ok(())
        },
        "/v1/inbox/{queue}/complete" => |metrics, text| {
            let done = settled(metrics, text)?;
            metrics.inbox.completed.inc_by(done);
            Ok(())
        },
        "/v1/inbox/{queue}/fail" => |metrics, text| {
            let done = settled(metrics, text)?;
            metrics.inbox.failed.inc_by(done);
            Ok(())
        },
        "/v1/inbox/{queue}/extend" => |metrics, text| {
            let done = settled(metrics, text)?;
            metrics.inbox.extended.inc_by(done);
            Ok(())
        },
        "/v1/inbox/{queue}/give-back" => |metrics, text| {
            let done = settled(metrics, text)?;
            metrics.inbox.given_back.inc_by(done);
            Ok(())
        },
        "/v1/inbox/{queue}/requeue" => |metrics, text| {
            let told: Changed = serde_json::from_slice(text)?;
            metrics.inbox.requeued.inc_by(told.requeued);
            Ok(())
        },
        "/v1/inbox/{queue}/reset" => |metrics, text| {
            let told: Changed = serde_json::from_slice(text)?;
            metrics.inbox.reset.inc_by(told.reset);
            Ok(())
        },
        "/v1/outbox" => |metrics, text| {
            let told: Emitted = serde_json::from_slice(text)?;
            metrics.outbox.emitted.inc_by(told.ids.len() as u64);
            Ok(())
        },
        "/v1/outbox/requeue" => |metrics, text| {
            let told: Changed = serde_json::from_slice(text)?;
            metrics.outbox.requeued.inc_by(told.requeued);
            Ok(())
        },
        "/v1/outbox/discard" => |metrics, text| {
            let told: Changed = serde_json::from_slice(text)?;
            metrics.outbox.discarded.inc_by(told.discarded);
            Ok(())
        },
        "/v1/sweep" => |metrics, text| {
            let told: Swept = serde_json::from_slice(text)?;
            metrics.sweeper.swept(&told);
            Ok(())
        },
        _ => return None,
    })
}

/// Lists are counted, and not kept: nothing of them takes any memory.
#[derive(Deserialize)]
struct Pushed {
    ids: Vec<IgnoredAny>,
    duplicate_places: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Claimed {
    items: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Emitted {
    ids: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Settled {
    done: u64,
    stale: Vec<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Changed {
    requeued: u64,
    reset: u64,
    discarded: u64,
}

#[derive(Deserialize)]
struct Leases {
    leases: Vec<Lease>,
}

#[derive(Deserialize)]
struct Lease {
    holds: u32,
}

/// How many it was applied to; those that came too late are counted here.
fn settled(metrics: &Metrics, text: &[u8]) -> serde_json::Result<u64> {
    let told: Settled = serde_json::from_slice(text)?;
    metrics.inbox.stale.inc_by(told.stale.len() as u64);
    Ok(told.done)
}

/// The answer as it is, read on its way.
async fn read_and(read: Read, metrics: &Metrics, response: Response) -> Response {
    let (head, body) = response.into_parts();
    let text = match body.collect().await {
        Ok(text) => text.to_bytes(),
        // What is not whole now will not be: these answers are made before they are sent.
        Err(_) => Bytes::new(),
    };
    if let Err(error) = read(metrics, &text) {
        tracing::error!(%error, "an answer is not what is counted");
    }
    Response::from_parts(head, Body::from(text))
}
