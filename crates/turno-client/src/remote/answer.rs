//! Conversion of the server's responses to the store's types.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;
use turno::store::{Busy, Grant, OnceGrant, OnceRun, PushedItem};
use turno::{Error, Result};
use turno_api::inbox::Pushed;
use turno_api::lock::Lease;
use turno_api::once;
use turno_api::once::Begun;
use turno_api::problem::Problem;

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
