//! Bodies for operators: sweep, diagnosis and the state of the server.

use serde::{Deserialize, Serialize};
use turno::access::Role;
use turno::store::Finding;

use super::Span;

/// Closes what has expired and forgets what is old: `POST /v1/sweep`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SweepAsk {
    /// Resources unused for this long are forgotten; their tokens are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_after: Option<Span>,
    /// History older than this is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_history: Option<Span>,
    /// The record of work completed longer ago than this is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_completed: Option<Span>,
    /// Items that failed longer ago than this are deleted; none, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_failed: Option<Span>,
    /// Archived events that were dispatched longer ago than this are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_archive: Option<Span>,
    /// What consumers saw longer ago than this is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_seen: Option<Span>,
}

/// What an examination of the store found: `GET /v1/doctor`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Examined {
    /// The store, without its password.
    pub store: String,
    /// One for each thing that was looked at.
    pub findings: Vec<Finding>,
}

/// Who asks: `GET /v1/whoami`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Whoami {
    /// The access token's name; `anonymous`, where nobody needs one.
    pub name: String,
    /// What may be done with it.
    pub role: Role,
    /// The beginning of the names that it is for; empty: all.
    pub prefix: String,
}

/// How the server is: `GET /healthz`, `GET /readyz`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`, or `unavailable` if the store does not answer.
    pub status: String,
    /// Why, if it is not ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The version of the server.
    pub version: String,
}
