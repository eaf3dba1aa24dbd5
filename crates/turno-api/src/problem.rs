//! Error responses: RFC 9457, with a stable code.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lock::{Busy, Holder};
use crate::once::OnceRun;

/// An error response: what went wrong, and what to do next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Always `about:blank`: `code` identifies the problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short description of the problem.
    pub title: String,
    /// The HTTP status.
    #[cfg_attr(feature = "schema", schema(minimum = 400, maximum = 599))]
    pub status: u16,
    /// The problem code, for programs: `busy`, `lost`, `invalid`, …; it never changes.
    pub code: String,
    /// What is wrong in this case, and what to do next.
    pub detail: String,
    /// The invalid field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The detail in English, if `detail` is in another language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The request's id, as in the response header `x-request-id` and in the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The time until a retry makes sense, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// `busy`: the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// `busy`: the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// `in_flight`, `unknown`: the once key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `in_flight`, `unknown`: the worker of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// `in_flight`, `unknown`: the number of the run, counted from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// `in_flight`, `unknown`: when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    /// `in_flight`, `unknown`: when the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// `in_flight`, `unknown`: the time until then, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
}

impl Problem {
    /// Returns the lock of the code `busy`. `resource` is the one that the caller asked for.
    pub fn into_busy(self, resource: &str) -> Busy {
        Busy {
            resource: self.resource.unwrap_or_else(|| resource.to_owned()),
            holder: self.holder,
            remaining: Duration::from_millis(self.retry_after_ms.unwrap_or(0)),
        }
    }

    /// Returns the run of the codes `in_flight` and `unknown`; `None` if the problem does not describe one.
    pub fn into_run(self) -> Option<OnceRun> {
        Some(OnceRun {
            worker: self.worker,
            attempt: self.attempt?,
            began_at: self.began_at?,
            expires_at: self.expires_at?,
            remaining: Duration::from_millis(self.remaining_ms.unwrap_or(0)),
        })
    }
}
