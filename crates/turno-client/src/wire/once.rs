//! Bodies of once: requests that are processed once.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turno::Token;
use turno::once::{OnceClaim, OnceState, OnceView};
use uuid::Uuid;

use super::Span;
#[cfg(feature = "schema")]
use super::rules::{Json, LeaseSpan, Name, OnceClaimName, Text, WaitSpan};

/// What to do if an earlier run has vanished half-way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// To be told, and to do nothing.
    #[default]
    Refuse,
    /// To take the work over.
    Rerun,
}

/// Takes the work of a key, or says what became of it: `POST /v1/once`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// The identity of the request.
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub key: String,
    /// The hash of its content; not compared, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub fingerprint: Option<String>,
    /// How long the work is the caller's before it counts as vanished; 30 seconds, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseSpan>))]
    pub lease: Option<Span>,
    /// How long the answer is kept; a day, if not said. Zero keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// Wait this long for the answer of somebody else's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<WaitSpan>))]
    pub wait: Option<Span>,
    /// What to do if an earlier run has vanished half-way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<OnUnknown>,
    /// Who does the work, as people see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub worker: Option<String>,
    /// Whose live keys are counted.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::maybe"
    )]
    pub quota: Option<Quota>,
    /// The identity of this request: sent twice, it changes nothing more, and is answered the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// Whose live keys are counted, and how many there may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Whose.
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub scope: String,
    /// How many.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1_000_000))]
    pub most: u32,
}

/// The work is the caller's: 201.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Begun {
    /// Its name: what it is completed and released by.
    #[cfg_attr(feature = "schema", schema(value_type = OnceClaimName))]
    pub claim: OnceClaim,
    /// The key.
    pub key: String,
    /// Larger than that of every earlier run.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub token: Token,
    /// How many runs began without an end, this one included.
    pub attempt: u32,
    /// When it counts as vanished, on the store's clock.
    pub expires_at: Timestamp,
    /// From now until then, in milliseconds.
    pub remaining_ms: u64,
}

/// The work is done: 200.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Replayed {
    /// The stored answer; null, if none was stored.
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub replay: Option<Box<RawValue>>,
    /// Whether there is one: a stored answer may itself be null.
    pub stored: bool,
}

/// Ends the work with its answer: `PUT /v1/once/{claim}`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Any JSON; if it is left out, it is known that the work is done, and no more.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "said"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub answer: Option<Box<RawValue>>,
    /// For how long it is kept, if not as begin said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
}

/// An answer that is null is one.
fn said<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Lengthens a run: `PATCH /v1/once/{claim}`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Extend {
    /// For how long from now; 30 seconds, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<LeaseSpan>))]
    pub lease: Option<Span>,
}

/// One page of keys: `GET /v1/once`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Keys {
    /// In order.
    pub keys: Vec<OnceView>,
    /// Where the next page begins (`after`); none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What is known of a key: `GET /v1/once-keys/{key}`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Known {
    /// Its name, with the token of its newest run.
    #[cfg_attr(feature = "schema", schema(value_type = OnceClaimName))]
    pub claim: OnceClaim,
    /// The identity of the request.
    pub key: String,
    /// What it is now.
    pub state: OnceState,
    /// How many runs began without an end, and the last one.
    pub attempt: u32,
    /// The hash of the request's content.
    pub fingerprint: Option<String>,
    /// Who did or does the work.
    pub worker: Option<String>,
    /// Against whose quota it counts.
    pub scope: Option<String>,
    /// Since when.
    pub began_at: Timestamp,
    /// In flight: when the claim ends; done: when the answer is forgotten; unknown: since when.
    pub expires_at: Timestamp,
    /// How many came too late: somebody else had begun.
    pub late: u32,
    /// Its answer; left out, if there is none.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::of::said"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub answer: Option<Box<RawValue>>,
}

/// Says that the work of an unknown key was done: `PUT /v1/once-keys/{key}`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// Any JSON. Without it the work counts as done, and its answer as not stored.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "said"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub answer: Option<Box<RawValue>>,
    /// The operator. Default: the name of the access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// How the operator knows that the work was done; for the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub reason: Option<String>,
}

/// Whether a key was forgotten: `DELETE /v1/once-keys/{key}`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Forgotten {
    /// False if there was nothing to forget, or the work is in flight.
    pub forgotten: bool,
}
