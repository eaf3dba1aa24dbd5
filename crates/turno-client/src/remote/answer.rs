//! Conversion of the server's responses to the store's types.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;
use turno::store::{
    Busy, ClaimedItem, EventView, Grant, ItemView, OnceGrant, OnceRun, OnceView, PushedItem,
};
use turno::{Error, Result};
use turno_api::inbox::Pushed;
use turno_api::lock::Lease;
use turno_api::once::Begun;
use turno_api::problem::Problem;
use turno_api::{inbox, once, outbox};

/// The error for a response without a field that servers always send.
pub(super) fn missing(what: &str) -> Error {
    Error::broken(format!(
        "the server has not said {what}: it may be of another version; use the same on both sides"
    ))
}

/// Parses JSON text for a request body.
pub(super) fn raw(field: &'static str, text: &str) -> Result<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).map_err(|error| {
        Error::invalid(
            field,
            format!("{field} is not JSON ({error}): give JSON text"),
        )
    })
}

fn text(raw: Box<RawValue>) -> String {
    Box::<str>::from(raw).into()
}

/// Converts a lease. `reentered`: whether the owner held the lock already.
pub(super) fn grant(lease: Lease, reentered: bool) -> Result<Grant> {
    Ok(Grant {
        resource: lease.resource,
        owner: lease.owner.ok_or_else(|| missing("whose a lease is"))?,
        token: lease.token,
        holds: lease.holds.ok_or_else(|| missing("a lease's holds"))?,
        acquired_at: lease
            .acquired_at
            .ok_or_else(|| missing("since when a lease is"))?,
        expires_at: lease.expires_at,
        remaining: Duration::from_millis(lease.remaining_ms),
        reentered,
    })
}

pub(super) fn busy(problem: Problem, resource: &str) -> Busy {
    Busy {
        resource: problem.resource.unwrap_or_else(|| resource.to_owned()),
        holder: problem.holder,
        remaining: Duration::from_millis(problem.retry_after_ms.unwrap_or(0)),
    }
}

pub(super) fn pushed(pushed: &Pushed) -> Vec<PushedItem> {
    let mut items: Vec<PushedItem> = pushed
        .ids
        .iter()
        .map(|id| PushedItem {
            id: *id,
            duplicate: false,
        })
        .collect();
    for place in &pushed.duplicate_places {
        if let Some(item) = items.get_mut(*place as usize) {
            item.duplicate = true;
        }
    }
    items
}

pub(super) fn claimed(item: inbox::ClaimedItemBody) -> ClaimedItem {
    ClaimedItem {
        claim: item.claim,
        attempt: item.attempt,
        max_attempts: item.max_attempts,
        payload: text(item.payload),
        key: item.key,
        group: item.group,
        priority: item.priority,
        pushed_at: item.pushed_at,
        expires_at: item.expires_at,
        abandoned: item.abandoned,
    }
}

pub(super) fn item(item: inbox::Item) -> ItemView {
    ItemView {
        id: item.id,
        state: item.state,
        payload: item.payload.map(text),
        key: item.key,
        group: item.group,
        priority: item.priority,
        attempts: item.attempts,
        abandoned: item.abandoned,
        worker: item.worker,
        pushed_at: item.pushed_at,
        at: item.at,
        errors: item.errors,
    }
}

pub(super) fn event(event: outbox::Event) -> EventView {
    EventView {
        seq: event.seq,
        id: event.id,
        state: event.state,
        kind: event.kind,
        key: event.key,
        correlation_id: event.correlation_id,
        traceparent: event.traceparent,
        headers: event.headers,
        payload: event.payload.map(text),
        refused: event.refused,
        doubtful: event.doubtful,
        by: event.by,
        emitted_at: event.emitted_at,
        at: event.at,
        errors: event.errors,
    }
}

pub(super) fn begun(begun: Begun) -> OnceGrant {
    OnceGrant {
        claim: begun.claim,
        attempt: begun.attempt,
        expires_at: begun.expires_at,
        remaining: Duration::from_millis(begun.remaining_ms),
    }
}

/// Returns the stored answer of a replay, if there is one. An answer may itself be `null`.
pub(super) fn replayed(replayed: once::Replayed) -> Option<String> {
    replayed
        .stored
        .then(|| replayed.replay.map_or_else(|| "null".to_owned(), text))
}

/// Converts the run of another caller.
pub(super) fn run(problem: Problem) -> Result<OnceRun> {
    let at = |at: Option<Timestamp>| at.ok_or_else(|| missing("when a run began or ends"));
    Ok(OnceRun {
        worker: problem.worker,
        attempt: problem
            .attempt
            .ok_or_else(|| missing("the how-manieth run it is"))?,
        began_at: at(problem.began_at)?,
        expires_at: at(problem.expires_at)?,
        remaining: Duration::from_millis(problem.remaining_ms.unwrap_or(0)),
    })
}

pub(super) fn known(known: once::OnceKey) -> OnceView {
    OnceView {
        claim: known.claim,
        key: known.key,
        state: known.state,
        attempt: known.attempt,
        fingerprint: known.fingerprint,
        worker: known.worker,
        scope: known.scope,
        began_at: known.began_at,
        expires_at: known.expires_at,
        late: known.late,
        answer: known.answer.map(text),
    }
}
