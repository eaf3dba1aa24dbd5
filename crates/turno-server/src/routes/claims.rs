//! OpenAPI schemas of the bodies that settle claims: each verb has its own fields. The body is deserialized as
//! [`turno_api::inbox::Settle`], and [`settle`](super::settle) rejects the fields of the other verbs.
#![allow(dead_code, reason = "only described")]

use turno_api::duration::WireDuration;
use turno_api::openapi_types::{ClaimName, LeaseDuration};
use utoipa::ToSchema;
use uuid::Uuid;

/// Completes items, or gives them back.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteClaims {
    /// The claims.
    #[schema(min_items = 1, max_items = 10_000)]
    claims: Vec<Completed>,
    /// Request id. A repeated request changes nothing more.
    #[serde(default)]
    request: Option<Uuid>,
}

/// A claim, by itself or in an object.
#[derive(ToSchema)]
#[serde(untagged)]
enum Completed {
    /// By itself.
    Alone(ClaimName),
    /// In an object.
    Object(CompletedClaim),
}

/// A claim.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletedClaim {
    /// The claim.
    claim: ClaimName,
}

/// Records failed attempts.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailClaims {
    /// The claims, each by itself or with its error.
    #[schema(min_items = 1, max_items = 10_000)]
    claims: Vec<Failed>,
    /// Request id. A repeated request changes nothing more.
    #[serde(default)]
    request: Option<Uuid>,
}

/// A claim, by itself or with its error.
#[derive(ToSchema)]
#[serde(untagged)]
enum Failed {
    /// By itself.
    Alone(ClaimName),
    /// With its error.
    Object(FailedClaim),
}

/// A claim with its error.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct FailedClaim {
    /// The claim.
    claim: ClaimName,
    /// The error. Truncated to 4000 bytes.
    #[serde(default)]
    error: Option<String>,
    /// Delay of the next attempt. Default: a backoff that grows with each attempt.
    #[serde(default)]
    retry_in: Option<WireDuration>,
    /// Makes the item failed immediately, without further attempts.
    #[serde(default, rename = "final")]
    last: Option<bool>,
}

/// Extends claims.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendClaims {
    /// The claims, each by itself or with its lease.
    #[schema(min_items = 1, max_items = 10_000)]
    claims: Vec<Extended>,
    /// Ignored: extending a claim twice has the same result.
    #[serde(default)]
    request: Option<Uuid>,
}

/// A claim, by itself or with its lease.
#[derive(ToSchema)]
#[serde(untagged)]
enum Extended {
    /// By itself.
    Alone(ClaimName),
    /// With its lease.
    Object(ExtendedClaim),
}

/// A claim with its lease.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ExtendedClaim {
    /// The claim.
    claim: ClaimName,
    /// Lease, counted from now. Default: the server's setting, 30 seconds unless changed.
    #[serde(default)]
    lease: Option<LeaseDuration>,
}
