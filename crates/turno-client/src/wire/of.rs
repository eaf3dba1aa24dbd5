//! Conversion of the library's types to response bodies.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use turno::inbox::{ItemView, PushedItem};
use turno::once::OnceView;
use turno::outbox::EventView;
use turno::{Error, Result};

use super::{ClaimedItem, Event, Item, Known, Pushed};

/// Parses JSON text from the store.
///
/// # Errors
/// Returns an error if the text is not JSON. The store checks it when it is stored, so the data was corrupted since.
pub fn raw(text: &str) -> Result<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).map_err(|error| {
        Error::broken("what is stored is not JSON, and was when it was stored").caused_by(error)
    })
}

/// An explicit `null` is kept as a value (a payload or an answer); only a missing field becomes `None`.
pub(super) fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

fn maybe(text: Option<&str>) -> Result<Option<Box<RawValue>>> {
    text.map(raw).transpose()
}

impl Pushed {
    /// Converts the outcomes of pushed items, in their order.
    pub fn of(items: &[PushedItem]) -> Self {
        let duplicates = || items.iter().enumerate().filter(|(_, item)| item.duplicate);
        Pushed {
            ids: items.iter().map(|item| item.id).collect(),
            duplicates: duplicates().map(|(_, item)| item.id).collect(),
            duplicate_places: duplicates()
                .map(|(place, _)| u32::try_from(place).unwrap_or(u32::MAX))
                .collect(),
        }
    }
}

impl ClaimedItem {
    /// Converts a claimed item.
    ///
    /// # Errors
    /// Returns an error if the stored payload is not JSON.
    pub fn of(item: &turno::inbox::ClaimedItem) -> Result<Self> {
        Ok(ClaimedItem {
            id: item.claim.item,
            claim: item.claim,
            attempt: item.attempt,
            max_attempts: item.max_attempts,
            abandoned: item.abandoned,
            payload: raw(&item.payload)?,
            key: item.key.clone(),
            group: item.group.clone(),
            priority: item.priority,
            pushed_at: item.pushed_at,
            expires_at: item.expires_at,
        })
    }
}

impl Item {
    /// Converts an item of a list.
    ///
    /// # Errors
    /// Returns an error if the stored payload is not JSON.
    pub fn of(view: &ItemView) -> Result<Self> {
        Ok(Item {
            id: view.id,
            state: view.state,
            payload: maybe(view.payload.as_deref())?,
            key: view.key.clone(),
            group: view.group.clone(),
            priority: view.priority,
            attempts: view.attempts,
            abandoned: view.abandoned,
            worker: view.worker.clone(),
            pushed_at: view.pushed_at,
            at: view.at,
            errors: view.errors.clone(),
        })
    }
}

impl Event {
    /// Converts an event of a list.
    ///
    /// # Errors
    /// Returns an error if the stored payload is not JSON.
    pub fn of(view: &EventView) -> Result<Self> {
        Ok(Event {
            seq: view.seq,
            id: view.id,
            state: view.state,
            kind: view.kind.clone(),
            payload: maybe(view.payload.as_deref())?,
            key: view.key.clone(),
            correlation_id: view.correlation_id.clone(),
            traceparent: view.traceparent.clone(),
            headers: view.headers.clone(),
            refused: view.refused,
            doubtful: view.doubtful,
            by: view.by.clone(),
            emitted_at: view.emitted_at,
            at: view.at,
            errors: view.errors.clone(),
        })
    }
}

impl Known {
    /// Converts a once key and its state.
    ///
    /// # Errors
    /// Returns an error if the stored answer is not JSON.
    pub fn of(view: &OnceView) -> Result<Self> {
        Ok(Known {
            claim: view.claim.clone(),
            key: view.key.clone(),
            state: view.state,
            attempt: view.attempt,
            fingerprint: view.fingerprint.clone(),
            worker: view.worker.clone(),
            scope: view.scope.clone(),
            began_at: view.began_at,
            expires_at: view.expires_at,
            late: view.late,
            answer: maybe(view.answer.as_deref())?,
        })
    }
}

/// Returns the cursor of the next page; `None` if this page is not full.
pub fn next<T, A>(page: &[T], limit: u32, place: impl Fn(&T) -> A) -> Option<A> {
    page.last()
        .filter(|_| page.len() >= limit as usize)
        .map(place)
}
