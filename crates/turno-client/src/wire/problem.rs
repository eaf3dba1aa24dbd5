//! Error responses: RFC 9457, with a stable code.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use turno::lock::Holder;

/// What went wrong, and what to do next. Every error is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Always `about:blank`: the code tells problems apart.
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened, in a few words.
    pub title: String,
    /// The status of the answer.
    #[cfg_attr(feature = "schema", schema(minimum = 400, maximum = 599))]
    pub status: u16,
    /// What happened, for programs: `busy`, `lost`, `invalid`, …; it does not change.
    pub code: String,
    /// What is wrong here, and what to do next.
    pub detail: String,
    /// The offending field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What exactly is wrong, in English, where the detail is in another language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The request's id, as in the answer's header `x-request-id` and in the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// `busy`: what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// `busy`: who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// `in_flight`, `unknown`: of which key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `in_flight`, `unknown`: who does or did the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// `in_flight`, `unknown`: the how-manieth run it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// `in_flight`, `unknown`: since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    /// `in_flight`, `unknown`: until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// `in_flight`, `unknown`: from now until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
}
